//! Addresses as they are shown.

/// An address without the credentials that a URL may hold.
pub fn shown(address: &str) -> String {
    let address = address.trim();
    match address.rsplit_once('@') {
        Some((before, host)) => {
            before.split_once("://").map_or_else(|| host.to_owned(), |(scheme, _)| format!("{scheme}://{host}"))
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_stands_before_the_host_is_not_shown() {
        for (address, expected) in [
            ("a:1", "a:1"),
            (" https://a:1", "https://a:1"),
            ("me:secret@a:1", "a:1"),
            ("nats://token@a:1", "nats://a:1"),
            ("http://me:sec@r/et@a:1", "http://a:1"),
        ] {
            assert_eq!(shown(address), expected, "{address}");
        }
    }
}
