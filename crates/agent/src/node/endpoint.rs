//! An address that a server listens at: a host and a port. Pure.

use std::fmt;
use std::str::FromStr;

/// Longest name of a host that DNS has, in bytes.
const HOST_MAX: usize = 253;

/// `10.1.0.3:7070`, `[fd00::3]:7070` or `nid00003:7070`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// Not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No colon, or nothing behind it.
    #[error("a host and a port are needed, as in 10.1.0.3:7070")]
    NoPort,
    /// Not a number of 16 bits.
    #[error("the port has to be a number from 0 to 65535")]
    Port,
    /// Neither a name nor a number.
    #[error("the host has to be a name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
}

impl Endpoint {
    /// Name or number, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 0 where any free port is meant.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let (host, port) = text.rsplit_once(':').ok_or(EndpointError::NoPort)?;
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| digits);
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(inner) => inner
                .filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
                .ok_or(EndpointError::Host)?,
            None => Some(host).filter(|host| is_name(host)).ok_or(EndpointError::Host)?,
        };
        Ok(Endpoint { host: host.to_owned(), port: port.ok_or(EndpointError::Port)? })
    }
}

/// A name of a host, or an IPv4 address: the same letters.
fn is_name(host: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !host.is_empty() && host.len() <= HOST_MAX && host.bytes().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back() {
        for text in ["10.1.0.3:7070", "[fd00::3]:1", "nid00003.cluster:65535", "localhost:0"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let cases = [
            ("10.1.0.3", EndpointError::NoPort),
            ("host:", EndpointError::Port),
            ("host:70000", EndpointError::Port),
            ("host:+1", EndpointError::Port),
            ("fd00::3:7070", EndpointError::Host),
            ("[fd00::3:7070", EndpointError::Host),
            ("[host]:1", EndpointError::Host),
            (":1", EndpointError::Host),
            ("a b:1", EndpointError::Host),
        ];
        for (text, wanted) in cases {
            assert_eq!(text.parse::<Endpoint>(), Err(wanted), "{text}");
        }
    }
}
