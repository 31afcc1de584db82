//! A support archive: objects and logs without credentials, as a compressed tar archive that stays within a size. Pure.
//!
//! Text in an object that looks like a credential is masked.

#[cfg(test)]
mod tests;

use std::{io, io::Write};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

/// Files up to a size; what does not fit is left out and named.
#[derive(Debug)]
pub struct Archive {
    folder: String,
    room: usize,
    /// Files by their paths within the folder.
    entries: Vec<(String, Vec<u8>)>,
    omitted: Vec<String>,
}

impl Archive {
    /// An empty archive of one folder with room for so many bytes.
    pub fn new(folder: &str, room: usize) -> Self {
        Self { folder: folder.to_owned(), room, entries: Vec::new(), omitted: Vec::new() }
    }

    /// Adds a file if there is room for it.
    pub fn add(&mut self, path: &str, content: Vec<u8>) {
        match self.room.checked_sub(content.len()) {
            Some(room) => {
                self.room = room;
                self.entries.push((path.to_owned(), content));
            }
            None => self.omitted.push(path.to_owned()),
        }
    }

    /// Paths of the files that did not fit.
    pub fn omitted(&self) -> &[String] {
        &self.omitted
    }

    /// Writes the archive; `seconds` is the time of its files since 1970.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(&self, seconds: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::default()));
        let omitted = ("omitted.txt".to_owned(), self.omitted.join("\n").into_bytes());
        for (path, content) in self.entries.iter().chain((!self.omitted.is_empty()).then_some(&omitted)) {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(seconds);
            tar.append_data(&mut header, format!("{}/{path}", self.folder), content.as_slice())?;
        }
        tar.into_inner()?.finish()?.flush()
    }
}

/// Replacement of a credential.
const MASKED: &str = "(masked)";
/// Words in the names of environment variables and flags that hold credentials.
const WORDS: [&str; 8] = ["token", "secret", "password", "passwd", "credential", "api_key", "apikey", "access_key"];
/// Metadata that only repeats the object.
const REPEATED: [&str; 2] = ["managedFields", "kubectl.kubernetes.io/last-applied-configuration"];

/// Masks values of environment variables and flags by their names, and passwords in URLs; removes what repeats the
/// object.
pub fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for name in REPEATED {
                fields.remove(name);
            }
            let is_credential = fields.get("name").and_then(Value::as_str).is_some_and(is_credential);
            if is_credential
                && let Some(value) = fields.get_mut("value")
                && value.is_string()
            {
                *value = MASKED.into();
            }
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => {
            let mut follows_flag = false;
            for item in items {
                if let Value::String(text) = item {
                    *text = arguments(text, &mut follows_flag);
                } else {
                    mask(item);
                }
            }
        }
        Value::String(text) => *text = without_password(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_credential(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    // Such as MAX_TOKENS and TOKENIZER, which are none.
    let name = name.replace("tokens", "").replace("tokenizer", "");
    WORDS.iter().any(|word| name.contains(word))
}

/// An item of a command line, which may be a script of many words. `follows_flag`: the next word is a credential.
fn arguments(text: &str, follows_flag: &mut bool) -> String {
    let mut masked = String::with_capacity(text.len());
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_end();
        if word.is_empty() {
            masked.push_str(part);
            continue;
        }
        let (clean, is_flag) = argument(word, *follows_flag);
        *follows_flag = is_flag;
        masked.push_str(&clean);
        masked.push_str(part.strip_prefix(word).unwrap_or_default());
    }
    masked
}

/// A word of a command line, and whether the next one is a credential.
fn argument(text: &str, follows_flag: bool) -> (String, bool) {
    if follows_flag && !text.starts_with('-') {
        return (MASKED.to_owned(), false);
    }
    match text.split_once('=') {
        Some((flag, _)) if is_credential(flag) => (format!("{flag}={MASKED}"), false),
        None if text.starts_with('-') && is_credential(text) => (text.to_owned(), true),
        _ => (without_password(text), false),
    }
}

/// A text whose URLs have no password.
fn without_password(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        clean.push_str(before);
        clean.push_str("://");
        let end = after.find(['/', ' ', '"', '\'', ',', '?']).unwrap_or(after.len());
        let (authority, others) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((user, host)) if user.contains(':') => clean.push_str(&format!("{MASKED}@{host}")),
            _ => clean.push_str(authority),
        }
        rest = others;
    }
    clean.push_str(rest);
    clean
}
