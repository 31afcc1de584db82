//! Credentials for the API server: those of a kubeconfig, or of the pod's service account.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use api_types::typed::typed;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tower::BoxError;

/// Variable that names kubeconfigs.
const KUBECONFIG: &str = "KUBECONFIG";

/// Fields of clusters and users that are paths.
const PATHS: [(&str, &str); 5] = [
    ("clusters", "/cluster/certificate-authority"),
    ("users", "/user/client-certificate"),
    ("users", "/user/client-key"),
    ("users", "/user/tokenFile"),
    ("users", COMMAND),
];

/// Credential plugin. A command without a directory is looked up in `PATH`.
const COMMAND: &str = "/user/exec/command";

/// Credentials of the file that a flag names. Without a flag, those of the files in `KUBECONFIG` or of
/// `~/.kube/config`, and if these cannot be used, those of the pod.
///
/// # Errors
/// There are none, or a file cannot be read, or has no usable context.
pub(super) async fn credentials(named: Option<&Path>) -> Result<Config, BoxError> {
    match named {
        Some(path) => from_files(&[path.to_owned()]).await,
        None => match from_files(&default_files()).await {
            Ok(config) => Ok(config),
            Err(no_file) => {
                Config::incluster().map_err(|no_pod| format!("{no_file}; no ServiceAccount of a pod: {no_pod}").into())
            }
        },
    }
}

fn default_files() -> Vec<PathBuf> {
    let named = env::var_os(KUBECONFIG).unwrap_or_default();
    let paths: Vec<PathBuf> = env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    let default = || env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect();
    if paths.is_empty() { default() } else { paths }
}

async fn from_files(paths: &[PathBuf]) -> Result<Config, BoxError> {
    let mut all = Kubeconfig::default();
    for path in paths {
        all = all.merge(read(path)?)?;
    }
    Ok(Config::from_custom_kubeconfig(all, &KubeConfigOptions::default()).await?)
}

/// Reads a kubeconfig. The YAML is read as a value first, see [`crate::yaml::read`]. Errors quote nothing of the file,
/// which has secrets.
fn read(path: &Path) -> Result<Kubeconfig, BoxError> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let value = crate::yaml::read(&text);
    let mut value = value.map_err(|error| format!("{name} is not YAML: {}", error.without_snippet()))?;
    if value.is_null() {
        return Ok(Kubeconfig::default());
    }
    if let Some(dir) = path.parent() {
        resolve_paths(&mut value, dir);
    }
    typed(value).map_err(|error| {
        let path = error.path();
        let part = if path.is_empty() { "the whole" } else { &path };
        format!("{name}: {part} lacks a field or has another type; write numbers in quotes where text is expected")
            .into()
    })
}

/// Paths in a kubeconfig are relative to its directory.
fn resolve_paths(kubeconfig: &mut Value, dir: &Path) {
    for (list, pointer) in PATHS {
        let items = kubeconfig.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for field in items.filter_map(|item| item.pointer_mut(pointer)) {
            let path = field.as_str().filter(|path| pointer != COMMAND || path.contains('/'));
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                *field = dir.join(path).to_string_lossy().into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::client::ConfigExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_relative_to_the_kubeconfig() {
        let user = |certificate: &str, command: &str| {
            let user = json!({ "client-certificate": certificate, "exec": { "command": command } });
            json!({ "users": [{ "name": "u", "user": user }] })
        };
        for (given, expected) in [
            (user("a.crt", "./login"), user("/k/a.crt", "/k/./login")),
            (user("/x/a.crt", "/x/login"), user("/x/a.crt", "/x/login")),
            (user("", "aws"), user("", "aws")),
        ] {
            let mut value = given;
            resolve_paths(&mut value, Path::new("/k"));
            assert_eq!(value, expected);
        }
        let mut odd = json!({ "clusters": 3, "users": [null, { "user": "x" }] });
        resolve_paths(&mut odd, Path::new("/k"));
        assert_eq!(odd, json!({ "clusters": 3, "users": [null, { "user": "x" }] }));
    }

    fn kubeconfig(server: &str, password: &str) -> String {
        format!(
            "clusters: [{{ name: c, cluster: {{ server: '{server}' }} }}]\n\
             users: [{{ name: u, user: {{ username: u, password: {password} }} }}]\n\
             contexts: [{{ name: c, context: {{ cluster: c, user: u }} }}]\ncurrent-context: c\n"
        )
    }

    /// kube reads fields of what the command prints by the paths of the kubeconfig.
    #[tokio::test]
    async fn the_command_of_an_auth_provider_yields_a_token() {
        let path = env::temp_dir().join(format!("kit-auth-provider-{}", std::process::id()));
        let printed = r#"{"credential":{"access_token":"t","token_expiry":"2999-01-01T00:00:00Z"}}"#;
        let layer = async |token_key: &str| {
            let provider = json!({ "name": "gcp", "config": {
                "cmd-path": "echo", "cmd-args": printed,
                "token-key": token_key, "expiry-key": "{.credential.token_expiry}",
            } });
            let kubeconfig = json!({
                "clusters": [{ "name": "c", "cluster": { "server": "https://a.example:1" } }],
                "users": [{ "name": "u", "user": { "auth-provider": provider } }],
                "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
                "current-context": "c",
            });
            fs::write(&path, kubeconfig.to_string()).unwrap();
            from_files(std::slice::from_ref(&path)).await.unwrap().auth_layer().map(|layer| layer.is_some())
        };
        assert!(layer("{.credential.access_token}").await.unwrap());
        for other in ["{.credential.none}", "{.credential['access_token']}"] {
            let error = layer(other).await.unwrap_err().to_string();
            assert!(error.contains("token-key"), "{error}");
        }
        fs::remove_file(path).unwrap();
    }

    #[tokio::test]
    async fn files_are_merged_and_errors_quote_none_of_them() {
        let dir = env::temp_dir().join(format!("kit-credentials-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = |name: &str, text: &str| {
            fs::write(dir.join(name), text).unwrap();
            dir.join(name)
        };
        let (empty, none) = (file("empty", "# nothing\n"), dir.join("none"));
        let (first, second) =
            (kubeconfig("https://first.example:1", "p"), kubeconfig("https://second.example:1", "null"));
        let (first, second) = (file("first", &first), file("second", &second));
        let found = from_files(&[empty, first, second.clone()]).await.unwrap();
        assert_eq!(found.cluster_url.to_string(), "https://first.example:1/");
        assert_eq!(from_files(&[second]).await.unwrap().cluster_url.to_string(), "https://second.example:1/");
        let number = file("number", &kubeconfig("https://a.example:1", "31415926"));
        let open = file("open", "users: [{ user: { password: \"31415926 } }]\n");
        for (path, expected) in [(number, "users[0].user.password"), (open, "is not YAML"), (none, "cannot read")] {
            let error = from_files(&[path]).await.err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("31415926"), "{error}");
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
