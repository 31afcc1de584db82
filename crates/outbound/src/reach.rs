//! Which addresses a request may go to whose server a tenant names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where clouds serve credentials and settings of a machine, beside the link-local addresses.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Whether an address is the machine's own, that of its link or its cloud's metadata, or one of `barred`.
pub(crate) fn is_inside(address: IpAddr, barred: &[IpAddr]) -> bool {
    let address = address.to_canonical();
    let own = match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unicast_link_local(),
    };
    own || address.is_multicast() || METADATA.contains(&address) || barred.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_machine_its_link_and_its_cloud_are_inside() {
        let barred: IpAddr = "10.96.0.1".parse().unwrap();
        for (address, inside) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("255.255.255.255", true),
            ("224.0.0.1", true),
            ("168.63.129.16", true),
            ("10.96.0.1", true),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:10.96.0.1", true),
            ("fd00:ec2::254", true),
            ("10.96.0.2", false),
            ("192.168.0.1", false),
            ("8.8.8.8", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_inside(address.parse().unwrap(), &[barred]), inside, "{address}");
        }
    }
}
