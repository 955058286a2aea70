//! The few `#SBATCH` options that matter on one machine: the job's name.
//!
//! Pure. The options of Slurm that ask for nodes, time or partitions have no meaning here and are left alone, as a
//! script must run unchanged under `sbatch`. Like Slurm, the scan stops at the first line that is not a comment.

/// The job name of a script: `#SBATCH -J name`, `-Jname`, `--job-name name`, `--job-name=name`, quoted or not. The
/// last one wins, as with sbatch.
pub fn job_name(script: &[u8]) -> Option<String> {
    header(script).filter_map(|line| name_in(&line)).next_back()
}

/// The text after `#SBATCH` of the leading comment lines.
fn header(script: &[u8]) -> impl DoubleEndedIterator<Item = String> {
    script
        .split(|byte| *byte == b'\n')
        .take_while(|line| line.first() == Some(&b'#') || line.iter().all(u8::is_ascii_whitespace))
        .filter_map(|line| line.strip_prefix(b"#SBATCH"))
        .map(|rest| String::from_utf8_lossy(rest).trim().to_string())
        .collect::<Vec<_>>()
        .into_iter()
}

fn name_in(options: &str) -> Option<String> {
    let words = words(options);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "-J" || word == "--job-name" {
            return words.next().cloned();
        }
        if let Some(name) = word.strip_prefix("--job-name=") {
            return Some(name.to_string());
        }
        if let Some(name) = word.strip_prefix("-J").filter(|name| !name.is_empty()) {
            return Some(name.to_string());
        }
    }
    None
}

/// Blank-separated words; quotes group, a `#` that begins a word starts a comment.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut open: Option<char> = None;
    let mut quoted = false;
    for letter in text.chars() {
        match (open, letter) {
            (Some(quote), _) if letter == quote => open = None,
            (None, '"' | '\'') => (open, quoted) = (Some(letter), true),
            (None, _) if letter.is_whitespace() => {
                if !word.is_empty() || quoted {
                    words.push(std::mem::take(&mut word));
                }
                quoted = false;
            }
            (None, '#') if word.is_empty() => return words,
            _ => word.push(letter),
        }
    }
    if !word.is_empty() || quoted {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::job_name;

    #[test]
    fn every_spelling_of_the_tutorials_is_read() {
        for line in [
            "-J \"job_scratch\"",
            "-J job_scratch",
            "-Jjob_scratch",
            "--job-name=job_scratch",
            "--job-name 'job_scratch'",
        ] {
            let script = format!("#!/bin/bash\n#SBATCH -N 1\n#SBATCH {line} # a comment\nhostname\n");
            assert_eq!(job_name(script.as_bytes()).as_deref(), Some("job_scratch"), "{line}");
        }
    }

    #[test]
    fn the_scan_stops_at_the_first_command() {
        assert_eq!(job_name(b"#!/bin/sh\nhostname\n#SBATCH -J late\n"), None);
        assert_eq!(job_name(b"#!/bin/sh\n#SBATCH -J a\n\n#SBATCH -J b\n"), Some("b".into()));
    }
}
