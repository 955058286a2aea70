//! Which start of the machine this is, as the kernel says it.
//!
//! What was written and not synced is there as long as this is the same one. Reads one file of the kernel; any thread may call.

use std::fmt;
use std::io;

const ID: &str = "/proc/sys/kernel/random/boot_id";
/// Hexadecimal digits of the kernel's text, and after which of them it has a hyphen.
const DIGITS: usize = 32;
const HYPHENS: [usize; 4] = [8, 12, 16, 20];

/// A start of a machine. Shown as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot(u128);

impl Boot {
    /// The present one.
    pub(crate) fn present() -> io::Result<Boot> {
        let text = std::fs::read_to_string(ID)?;
        Boot::of(&text).ok_or_else(|| io::Error::other(format!("{ID} holds no id of a boot: {text:?}")))
    }

    fn of(text: &str) -> Option<Boot> {
        let digits: String = text.trim_end().chars().filter(|letter| *letter != '-').collect();
        let is_id = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_id.then(|| u128::from_str_radix(&digits, 16).ok()).flatten().map(Boot)
    }

    /// All of it.
    pub(crate) fn words(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    /// A part of it that is chance alone.
    pub(crate) fn number(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, digit) in format!("{:0DIGITS$x}", self.0).chars().enumerate() {
            let hyphen = if HYPHENS.contains(&at) { "-" } else { "" };
            write!(f, "{hyphen}{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_kernel_says() {
        let present = Boot::present().unwrap();
        assert_eq!(present.to_string(), std::fs::read_to_string(ID).unwrap().trim());
        assert_eq!(present, Boot::present().unwrap());
        assert_eq!(Boot::of(&format!("{present}\n")), Some(present));
    }

    #[test]
    fn its_numbers_are_its_own_bits() {
        let boot = Boot::of("00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
        assert_eq!(boot.words(), [0x0011_2233_4455_6677, 0x8899_aabb_ccdd_eeff]);
        assert_eq!(boot.number(), 0x8899_aabb_ccdd_eeff);
        assert_eq!(boot.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn anything_else_is_none() {
        for text in
            ["", "0011", "00112233-4455-6677-8899-aabbccddeefg", "+0112233-4455-6677-8899-aabbccddeeff"]
        {
            assert_eq!(Boot::of(text), None, "{text:?}");
        }
    }
}
