//! What Slurm itself reads in the directives, where that differs from what they say.
//!
//! Slurm looks for `capacity=`, `pool=`, `name=` and the like as parts of the text, ends a value at a blank only, stops at
//! the first line that is no comment, and takes what it cannot read for something small: `10GiB<tab>` is 10 bytes.
//! Space is then counted wrongly, or another buffer is meant. Every such script is refused with the line that is the
//! cause. Pure.

use super::script::Replaced;
use forebay_directive::{Directive, Parsed};
use forebay_model::capacity::Capacity;

/// Something that Slurm misreads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Finding {
    /// Line of the directive.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// What Slurm misreads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// `#DWjobdw`
    #[error("Slurm takes {word} for a directive, but a blank is missing after {prefix}")]
    NoBlank {
        /// The first word.
        word: String,
        /// `#DW` or `#BB`.
        prefix: String,
    },
    /// A tab or carriage return.
    #[error(
        "there is {what} in a directive: Slurm ends a value at a blank only, so write blanks and plain line ends"
    )]
    Separator {
        /// Which one.
        what: &'static str,
    },
    /// `pfs=/a/pool=b`
    #[error("Slurm finds {key} inside another word and takes it from there: rename what it stands in")]
    Inside {
        /// The key.
        key: &'static str,
    },
    /// `name=hurryup`
    #[error(
        "Slurm finds hurry in the name {name} and would destroy the instance without waiting for its data: an operator removes it with dwcli rm session"
    )]
    Hurry {
        /// The name.
        name: String,
    },
    /// `capacity=2N`
    #[error("Slurm takes the capacity {capacity} for something else: write a size, for example 200GiB")]
    Nodes {
        /// As it is written.
        capacity: Capacity,
    },
    /// `--bb="capacity=50M,type=scratch"`
    #[error(
        "the capacity is {bytes} bytes: Slurm makes that of a size with a comma behind it, so write --bb with blanks between its keys, and sizes with a unit, for example capacity=200GiB"
    )]
    NoUnit {
        /// What Slurm understood.
        bytes: u64,
    },
    /// A `jobdw` below the first command.
    #[error("Slurm does not see #DW {command} here: move it above the first line that is no comment")]
    Below {
        /// Its command.
        command: &'static str,
    },
    /// `%` and `\\` in one script.
    #[error(
        "Slurm loses text between a % symbol and the two backslashes that end them: write %% for a percent sign instead"
    )]
    Backslashes,
}

/// The commands that Slurm looks into, with the keys that it looks for.
const LOOKED_INTO: [(&str, &[&str]); 5] = [
    ("jobdw", &["capacity=", "pool="]),
    ("swap", &["pool="]),
    ("persistentdw", &["name="]),
    ("create_persistent", &["name=", "capacity=", "pool=", "access_mode=", "access=", "type="]),
    ("destroy_persistent", &["name="]),
];

/// Nobody means less than so many bytes.
const SMALLEST_MEANT: u64 = 1 << 20;

/// All that Slurm misreads in a text whose directives are right.
pub fn findings(text: &[u8], replaced: Replaced, parsed: &Parsed) -> Vec<Finding> {
    let lines = seen_by_slurm(text);
    let last = lines.last().map_or(0, |line| line.number);
    let mut found: Vec<Finding> = lines
        .iter()
        .filter_map(|line| line.problem().map(|problem| Finding { line: line.number, problem }))
        .collect();
    found.extend(lines.iter().filter_map(|line| {
        line.bytes_of_slurm().map(|bytes| Finding { line: line.number, problem: Problem::NoUnit { bytes } })
    }));
    found.extend(parsed.directives.iter().filter_map(|directive| {
        let problem =
            of_value(&directive.value).or_else(|| below(&directive.value, directive.line > last))?;
        Some(Finding { line: directive.line, problem })
    }));
    if replaced == Replaced::No && lines.iter().any(|line| line.text.contains(&b'%')) {
        let stops = lines.iter().filter(|line| line.text.windows(2).any(|two| two == b"\\\\"));
        found.extend(stops.map(|line| Finding { line: line.number, problem: Problem::Backslashes }));
    }
    found.sort_by_key(|finding| finding.line);
    found
}

/// A directive with its continuation lines, as Slurm puts it together.
struct Line {
    number: usize,
    text: Vec<u8>,
}

/// The directives of the leading comments.
fn seen_by_slurm(text: &[u8]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut continues = false;
    for (index, physical) in text.split(|byte| *byte == b'\n').enumerate() {
        match physical {
            [] => continues = false,
            [b'#', b'D', b'W', rest @ ..] | [b'#', b'B', b'B', rest @ ..] => {
                let (rest, goes_on) = rest.strip_suffix(b"\\").map_or((rest, false), |rest| (rest, true));
                match lines.last_mut().filter(|_| continues) {
                    Some(open) => open.text.extend_from_slice(rest),
                    None => lines.push(Line { number: index + 1, text: [&physical[..3], rest].concat() }),
                }
                continues = goes_on;
            }
            [b'#', ..] => continues = false,
            _ => break,
        }
    }
    lines
}

impl Line {
    fn problem(&self) -> Option<Problem> {
        let (prefix, rest) = self.text.split_at(3);
        let prefix = String::from_utf8_lossy(prefix).into_owned();
        let command = rest.trim_ascii_start();
        let looked_into = LOOKED_INTO.iter().find(|(name, _)| command.starts_with(name.as_bytes()));
        let (_, keys) = looked_into?;
        if rest.len() == command.len() {
            let word = self.text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
            return Some(Problem::NoBlank { word: String::from_utf8_lossy(word).into_owned(), prefix });
        }
        keys.iter().find_map(|key| self.key_problem(key))
    }

    /// The bytes that Slurm made of the first key of `--bb`, if nobody can have meant them: it writes the capacity first, and
    /// without a unit if it understood none.
    fn bytes_of_slurm(&self) -> Option<u64> {
        let rest = self.text.strip_prefix(b"#DW jobdw capacity=")?;
        let value = rest.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        let bytes = std::str::from_utf8(value).ok()?.parse().ok()?;
        (bytes < SMALLEST_MEANT).then_some(bytes)
    }

    fn key_problem(&self, key: &'static str) -> Option<Problem> {
        let at = self.text.windows(key.len()).position(|part| part == key.as_bytes())?;
        if !b" \t".contains(&self.text[at - 1]) {
            return Some(Problem::Inside { key });
        }
        let value = self.text[at..].split(|byte| *byte == b' ').next().unwrap_or_default();
        let separators =
            [(b'\t', "a tab"), (b'\r', "a carriage return"), (0x0b, "a vertical tab"), (0x0c, "a form feed")];
        let found = separators.iter().find(|(byte, _)| value.contains(byte));
        found.map(|(_, what)| Problem::Separator { what })
    }
}

/// What the value of a directive is for Slurm.
fn of_value(directive: &Directive) -> Option<Problem> {
    match directive {
        Directive::JobDw(job) => counted_in_nodes(job.capacity),
        Directive::CreatePersistent(create) => counted_in_nodes(create.capacity),
        Directive::DestroyPersistent(destroy) if !destroy.hurry && destroy.name.contains("hurry") => {
            Some(Problem::Hurry { name: destroy.name.clone() })
        }
        _ => None,
    }
}

fn counted_in_nodes(capacity: Capacity) -> Option<Problem> {
    matches!(capacity, Capacity::Nodes(_)).then_some(Problem::Nodes { capacity })
}

/// A directive that Slurm must see.
fn below(directive: &Directive, is_below: bool) -> Option<Problem> {
    let command = match directive {
        Directive::JobDw(_) => "jobdw",
        Directive::PersistentDw(_) => "persistentdw",
        _ => return None,
    };
    is_below.then_some(Problem::Below { command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_directive::parse_script;

    fn text(script: &str) -> Vec<String> {
        let script = script.as_bytes();
        findings(script, Replaced::No, &parse_script(script)).iter().map(Finding::to_string).collect()
    }

    const REST: &str = "access_mode=striped type=scratch";

    #[test]
    fn ordinary_scripts_have_no_findings() {
        for script in [
            format!("#!/bin/bash\n#DW jobdw capacity=1GiB {REST}\nsrun a\n"),
            format!(
                "#!/bin/bash\n\n#SBATCH -N 1\n#DW jobdw {REST} \\\n#DW capacity=1GiB pool=a\n#BB create_persistent name=a capacity=1G access=striped type=scratch\n"
            ),
            format!("#!/bin/bash\n#DW\tjobdw\tcapacity=1GiB {REST}\r\n"),
            // A size without a unit is one of bytes, where a user wrote it or it can be meant.
            format!("#DW jobdw {REST} capacity=48\n#BB create_persistent name=a capacity=48 {REST}\n"),
            format!("#DW jobdw capacity=1048576 {REST}\n"),
            "#!/bin/bash\n#BB destroy_persistent name=hurryup hurry\n#DW persistentdw name=a\n".to_owned(),
            format!(
                "#!/bin/sh\n#DW jobdw capacity=1GiB {REST}\n#DW stage_in type=file source=/a/pool=b/%j destination=$DW_JOB_STRIPED/name=x\necho\n#DW stage_out type=file source=$DW_JOB_STRIPED/a destination=/b\n"
            ),
        ] {
            assert_eq!(text(&script), Vec::<String>::new(), "{script}");
        }
    }

    #[test]
    fn each_misreading_is_found() {
        let found = |script: &str, expected: &str| {
            let all = text(script);
            assert!(all.len() == 1 && all[0].contains(expected), "{script}: {all:?}");
        };
        found(&format!("#DWjobdw capacity=1GiB {REST}"), "line 1: Slurm takes #DWjobdw for a directive");
        found(&format!("#DW jobdw capacity=1GiB\t{REST}"), "a tab in a directive");
        found(&format!("#DW jobdw {REST} capacity=1GiB\r\n"), "a carriage return in a directive");
        found(&format!("#DW jobdw capacity=2N {REST}"), "capacity 2N for something else");
        found(
            &format!("#DW jobdw pfs=/a/pool=b capacity=1GiB {REST} pool=c"),
            "finds pool= inside another word",
        );
        found(&format!("#DW jobdw capacity=50 {REST}"), "the capacity is 50 bytes");
        found("#BB destroy_persistent name=hurryup", "hurry in the name hurryup");
        found(
            &format!("#!/bin/sh\n# a\necho\n#DW jobdw capacity=1GiB {REST}"),
            "line 4: Slurm does not see #DW jobdw",
        );
        found(
            &format!(
                "#DW jobdw capacity=1GiB {REST}\n#DW stage_in type=file source=/a/%j\\\\b destination=$DW_JOB_STRIPED/"
            ),
            "line 2: Slurm loses text",
        );
    }
}
