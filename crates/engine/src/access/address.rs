//! Network addresses: which are public, and which a policy lists.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use pushdowndb_contract::{Error, Result};
use serde::{Deserialize, Serialize};

/// A range of addresses, such as `10.0.0.0/8`, or a single one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    first: IpAddr,
    /// The length of the common prefix in bits.
    bits: u8,
}

impl Network {
    /// Returns whether the range contains `address`. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let beyond = 32_u32.saturating_sub(self.bits.into());
                first.to_bits().checked_shr(beyond) == address.to_bits().checked_shr(beyond)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let beyond = 128_u32.saturating_sub(self.bits.into());
                first.to_bits().checked_shr(beyond) == address.to_bits().checked_shr(beyond)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("'{text}' is no address or range of addresses, such as 10.0.0.0/8"));
        let (first, bits) = match text.trim().split_once('/') {
            Some((first, bits)) => (first, Some(bits)),
            None => (text.trim(), None),
        };
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let most: u8 = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        // An IPv4-mapped IPv6 address is stored as IPv4, whose prefix is 96 bits shorter.
        match (first, first.to_canonical()) {
            (IpAddr::V6(_), first @ IpAddr::V4(_)) => Ok(Self { first, bits: bits.checked_sub(96).ok_or_else(wrong)? }),
            (first, _) => Ok(Self { first, bits }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl TryFrom<String> for Network {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

/// Returns the kind of `address` if it is not public: loopback, private, link-local (where metadata
/// services are), shared, multicast, reserved, or an IPv6 address that embeds such an IPv4 address.
/// Returns `None` if the address is public.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    Some(match (a, b, c) {
        (0, ..) => "an address of this machine",
        (127, ..) => "a loopback address",
        (10, ..) | (192, 168, _) => "a private address",
        (172, 16..=31, _) => "a private address",
        (169, 254, _) => "a link-local address",
        (100, 64..=127, _) => "a shared address",
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => "a reserved address",
        (224..=239, ..) => "a multicast address",
        (240.., ..) => "a reserved address",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        not_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an address of this machine",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback address",
        // NAT64 and 6to4 embed an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return of(high, low),
        [0x2002, high, low, ..] => return of(high, low),
        [0x2001, 0, ..] => "a tunnel's address",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x2001, 0x2 | 0x10..=0x3f, ..] => "a reserved address",
        [0x2000..=0x3fff, ..] => return None,
        [0xfc00..=0xfdff, ..] => "a private address",
        [0xfe80..=0xfebf, ..] => "a link-local address",
        [0xfec0..=0xfeff, ..] => "a private address",
        [0xff00..=0xffff, ..] => "a multicast address",
        _ => "a reserved address",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_known() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.170",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001:0:1::1",
            "2001:db8::1",
            "100::1",
            "fd00:ec2::254",
        ] {
            assert!(not_public(private.parse().unwrap()).is_some(), "{private}");
        }
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "169.253.1.1",
            "192.167.1.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(not_public(public.parse().unwrap()), None, "{public}");
        }
    }

    #[test]
    fn networks_have_their_addresses() {
        let has = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse::<IpAddr>().unwrap())
        };
        assert!(has("10.0.0.0/8", "10.255.1.2") && !has("10.0.0.0/8", "11.0.0.1"));
        assert!(has("127.0.0.1", "127.0.0.1") && !has("127.0.0.1", "127.0.0.2"));
        assert!(has("127.0.0.1", "::ffff:127.0.0.1") && has("::ffff:10.0.0.0/104", "10.1.1.1"));
        assert!(has("0.0.0.0/0", "9.9.9.9") && !has("0.0.0.0/0", "::1"));
        assert!(has("fd00::/8", "fdff::1") && !has("fd00::/8", "fe00::1") && has("::/0", "::1"));
        for wrong in ["", "10.0.0.0/33", "10.0/8", "a", "::/129", "10.0.0.0/", "::ffff:10.0.0.0/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        let network: Network = serde_json::from_str("\"10.0.0.0/8\"").unwrap();
        assert_eq!(serde_json::to_string(&network).unwrap(), "\"10.0.0.0/8\"");
    }
}
