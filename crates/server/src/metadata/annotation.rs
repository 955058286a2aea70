//! What a stub says beyond its own attributes: one internal extended attribute.
//!
//! A stub carries it only when it has something to say, and then carries a *mark* in its mode, so that everything else
//! costs no look at extended attributes: the sticky bit of a regular file and the set-user-id bit of a directory, which
//! mean nothing to the system there.
//!
//! It can say three things:
//! * where the content of a striped file is;
//! * the layout that new files of a directory get; of an inline file, the stripe size that it was given;
//! * the mode that users see, where the stub's own has to differ: when it contains the bit of the mark, and, when the
//!   servers run without privilege, when the owner may not read or write the object (the servers still must).
//!
//! The text is one line of words, `1 file=<hex> layout=<size>,<count>,<first>,<substripes>,<servers> mode=<octal>
//! new=<size>,<count>,<first>,<substripes>`, all but the version optional, `-` for a part of `new` that is left open.
//! Unknown words are refused: a later version may not be understood by guessing. Pure.

use forebay_model::layout::{Layout, LayoutChoice};
use forebay_wire::{FileId, FsError, Placement, Result};

/// Name of the internal extended attribute.
pub(crate) const ATTRIBUTE: &str = "user.dwfs.stub";
/// Longest text, in bytes.
pub(crate) const TEXT_MAX: usize = 256;
const VERSION: &str = "1";
const DAMAGED: FsError = FsError::Damaged { what: "the attribute user.dwfs.stub of a stub" };

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotation {
    /// Content of a striped file.
    pub(crate) striped: Option<(FileId, Layout)>,
    /// Layout of new files of a directory; of an inline file, its stripe size.
    pub(crate) new_files: LayoutChoice,
    /// The mode that users see, `07777`.
    pub(crate) mode: Option<u32>,
}

impl Annotation {
    /// There is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Annotation::default()
    }

    /// Where the content of a regular file is.
    pub(crate) fn placement(&self) -> Placement {
        match self.striped {
            Some((file, layout)) => Placement::Striped { file, layout },
            None => Placement::Inline,
        }
    }

    /// The text of the attribute.
    pub(crate) fn to_text(self) -> String {
        let mut text = VERSION.to_owned();
        if let Some((file, layout)) = self.striped {
            text += &format!(
                " file={:x} layout={},{},{},{},{}",
                file.0,
                layout.stripe_size(),
                layout.stripe_count(),
                layout.first_server(),
                layout.substripes(),
                layout.servers()
            );
        }
        if let Some(mode) = self.mode {
            text += &format!(" mode={mode:o}");
        }
        if !self.new_files.is_empty() {
            let new = self.new_files;
            let part = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
            text += &format!(
                " new={},{},{},{}",
                part(new.stripe_size),
                part(new.stripe_count.map(u64::from)),
                part(new.first_server.map(u64::from)),
                part(new.substripes.map(u64::from))
            );
        }
        text
    }

    /// Reads the text of the attribute.
    pub(crate) fn parse(text: &[u8]) -> Result<Annotation> {
        let text = std::str::from_utf8(text).map_err(|_| DAMAGED)?;
        let mut words = text.split(' ');
        if words.next() != Some(VERSION) {
            return Err(DAMAGED);
        }
        let mut annotation = Annotation::default();
        let (mut file, mut layout) = (None, None);
        for word in words {
            match word.split_once('=') {
                Some(("file", id)) => file = Some(u64::from_str_radix(id, 16).map_err(|_| DAMAGED)?),
                Some(("layout", parts)) => layout = Some(parse_layout(parts)?),
                Some(("mode", mode)) => {
                    let mode = u32::from_str_radix(mode, 8).map_err(|_| DAMAGED)?;
                    annotation.mode = Some(mode).filter(|mode| *mode <= 0o7777);
                }
                Some(("new", parts)) => annotation.new_files = parse_choice(parts)?,
                _ => return Err(DAMAGED),
            }
        }
        annotation.striped = match (file, layout) {
            (Some(file), Some(layout)) => Some((FileId(file), layout)),
            (None, None) => None,
            _ => return Err(DAMAGED),
        };
        Ok(annotation)
    }
}

fn parse_layout(parts: &str) -> Result<Layout> {
    let numbers: Vec<u64> =
        parts.split(',').map(|part| part.parse().map_err(|_| DAMAGED)).collect::<Result<_>>()?;
    let [stripe_size, count, first, substripes, servers] = numbers[..] else { return Err(DAMAGED) };
    let small = |number: u64| u32::try_from(number).map_err(|_| DAMAGED);
    Layout::new(stripe_size, small(count)?, small(first)?, small(substripes)?, small(servers)?)
        .map_err(|_| DAMAGED)
}

fn parse_choice(parts: &str) -> Result<LayoutChoice> {
    let open = |part: &str| match part {
        "-" => Ok(None),
        number => number.parse::<u64>().map(Some).map_err(|_| DAMAGED),
    };
    let numbers: Vec<Option<u64>> = parts.split(',').map(open).collect::<Result<_>>()?;
    let [stripe_size, count, first, substripes] = numbers[..] else { return Err(DAMAGED) };
    let small =
        |number: Option<u64>| number.map(|number| u32::try_from(number).map_err(|_| DAMAGED)).transpose();
    Ok(LayoutChoice {
        stripe_size,
        stripe_count: small(count)?,
        first_server: small(first)?,
        substripes: small(substripes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn text_is_read_back(id in any::<u64>(), placed in any::<bool>(), mode in prop::option::of(0u32..0o10000),
                             size in prop::option::of(any::<u64>()), count in prop::option::of(any::<u32>()),
                             first in prop::option::of(any::<u32>()), sub in prop::option::of(any::<u32>())) {
            let layout = Layout::new(65536, 3, 1, 2, 4).unwrap();
            let new_files =
                LayoutChoice { stripe_size: size, stripe_count: count, first_server: first, substripes: sub };
            let annotation = Annotation { striped: placed.then_some((FileId(id), layout)), new_files, mode };
            let text = annotation.to_text();
            prop_assert!(text.len() <= TEXT_MAX);
            prop_assert_eq!(Annotation::parse(text.as_bytes()), Ok(annotation));
        }

        #[test]
        fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Annotation::parse(&text);
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in
            ["", "2", "1 ", "1 x=1", "1 file=1", "1 layout=4096,1,0,1,1", "1 file=1 layout=4095,1,0,1,1"]
        {
            assert_eq!(Annotation::parse(text.as_bytes()), Err(DAMAGED), "{text}");
        }
    }
}
