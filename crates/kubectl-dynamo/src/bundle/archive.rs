//! A tar archive, compressed, that stays within a size.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Path within the archive.
    pub path: String,
    /// Content.
    pub content: Vec<u8>,
}

/// Files up to a size; what does not fit is left out and named.
#[derive(Debug)]
pub struct Archive {
    folder: String,
    room: usize,
    entries: Vec<Entry>,
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
                self.entries.push(Entry { path: path.to_owned(), content });
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
        let omitted = Entry { path: "omitted.txt".to_owned(), content: self.omitted.join("\n").into_bytes() };
        for entry in self.entries.iter().chain((!self.omitted.is_empty()).then_some(&omitted)) {
            let mut header = tar::Header::new_gnu();
            header.set_size(entry.content.len() as u64);
            header.set_mode(0o600);
            header.set_mtime(seconds);
            tar.append_data(&mut header, format!("{}/{}", self.folder, entry.path), entry.content.as_slice())?;
        }
        tar.into_inner()?.finish()?.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn what_does_not_fit_is_named() {
        let mut archive = Archive::new("chat", 10);
        archive.add("a.json", b"12345678".to_vec());
        archive.add("b.log", b"123".to_vec());
        archive.add("c.log", b"12".to_vec());
        let mut bytes = Vec::new();
        archive.write(1, &mut bytes).unwrap();
        let mut tar = tar::Archive::new(GzDecoder::new(bytes.as_slice()));
        let mut files = Vec::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.push((entry.path().unwrap().display().to_string(), text));
        }
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let expected = [file("chat/a.json", "12345678"), file("chat/c.log", "12"), file("chat/omitted.txt", "b.log")];
        assert_eq!(files, expected);
    }
}
