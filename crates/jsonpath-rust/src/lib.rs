//! Takes the place of the registry's crate of this name, which brings a parser of expressions into every program, and
//! regular expressions into four that have no other use for them: 1.1 MiB in each of the four. kube needs it for
//! the `token-key` and `expiry-key` of the `auth-provider` of a kubeconfig, names of fields with dots between them.

use serde_json::Value;

/// A path that is more than names of fields.
#[derive(Debug, thiserror::Error)]
#[error("{path:?} is not $, and then names of fields with a dot before each, as in $.credential.access_token")]
pub struct UnsupportedPath {
    path: String,
}

/// Values that have fields.
pub trait JsonPath {
    /// Returns the field at a path such as `$.credential.access_token`; nothing if the value has no such field.
    ///
    /// # Errors
    /// The path has a part other than names of fields: an index, a filter, a wildcard.
    fn query(&self, path: &str) -> Result<Vec<&Self>, UnsupportedPath>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Self>, UnsupportedPath> {
        let unsupported = || UnsupportedPath { path: path.to_owned() };
        let names = path.strip_prefix("$.").ok_or_else(unsupported)?;
        let is_name = |name: &str| {
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !name.is_empty() && name.chars().all(legal)
        };
        if !names.split('.').all(is_name) {
            return Err(unsupported());
        }
        let field = names.split('.').try_fold(self, |value, name| value.get(name));
        Ok(field.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_of_names_leads_to_a_field() {
        let credential = json!({ "credential": { "access_token": "t", "token-expiry": null }, "list": ["a"] });
        let token = json!("t");
        assert_eq!(credential.query("$.credential.access_token").unwrap(), [&token]);
        assert_eq!(credential.query("$.credential.token-expiry").unwrap(), [&Value::Null]);
        for missing in ["$.credential.none", "$.none.access_token", "$.credential.access_token.t", "$.list.0"] {
            assert!(credential.query(missing).unwrap().is_empty(), "{missing}");
        }
    }

    #[test]
    fn more_than_names_is_an_error_with_the_path() {
        for path in ["", "$", "$.", "$.a..b", "$..a", "$.a[0]", "$.*", "$.a?(@.b)", "a.b", "$.a b", "$['a']"] {
            let error = json!({ "a": ["b"] }).query(path).unwrap_err().to_string();
            assert!(error.contains(&format!("{path:?}")), "{error}");
        }
    }
}
