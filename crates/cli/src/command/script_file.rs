//! Reading a script and its directives, with every finding told at once.

use crate::error::CommandError;
use forebay_directive::{Parsed, Symbols, parse_bb_option, parse_lines_with, parse_script_with};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest script: Slurm's own default limit is 4 MiB, generated scripts may be larger.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// The name that stands for standard input, as with `sbatch`.
const STANDARD_INPUT: &str = "-";
/// What standard input is called where a path is needed: a job is named after it.
const STANDARD_INPUT_PATH: &str = "/dev/stdin";

/// What kind of text holds the directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A batch script.
    Script,
    /// A file of directives (`--bbf`).
    Lines,
    /// The value of `--bb`.
    Request,
}

/// A script as it was read.
#[derive(Clone, Debug)]
pub struct ScriptFile {
    /// What it is.
    pub form: Form,
    /// As the user named it, for messages.
    pub named: PathBuf,
    /// Absolute.
    pub path: PathBuf,
    /// Its text.
    pub text: Vec<u8>,
}

impl ScriptFile {
    /// Reads a file, or standard input for `-`.
    pub fn read(path: &Path, form: Form) -> Result<ScriptFile, CommandError> {
        let failed = |source| CommandError::Script { path: path.to_owned(), source };
        let is_input = path.as_os_str() == STANDARD_INPUT;
        let absolute = std::path::absolute(if is_input { Path::new(STANDARD_INPUT_PATH) } else { path });
        let absolute = absolute.map_err(failed)?;
        let text =
            if is_input { beginning(std::io::stdin().lock()) } else { File::open(path).and_then(beginning) };
        let text = text.map_err(failed)?;
        if text.len() as u64 > SCRIPT_BYTES_MAX {
            let problem =
                format!("it is larger than {} MiB, which no batch script is", SCRIPT_BYTES_MAX >> 20);
            return Err(CommandError::Option { option: path.display().to_string(), problem });
        }
        if form == Form::Script && is_program(&text) {
            return Err(CommandError::Program(path.to_owned()));
        }
        Ok(ScriptFile { form, named: path.to_path_buf(), path: absolute, text })
    }

    /// A text that is no file, called `name` in messages.
    pub fn given(name: &str, text: String, form: Form) -> ScriptFile {
        ScriptFile { form, named: name.into(), path: name.into(), text: text.into_bytes() }
    }

    /// Its directives with everything that is wrong or doubtful.
    pub fn parse(&self, symbols: Option<&Symbols>) -> Parsed {
        match self.form {
            Form::Script => parse_script_with(&self.text, symbols),
            Form::Lines => parse_lines_with(&self.text, symbols),
            Form::Request => parse_bb_option(&String::from_utf8_lossy(&self.text)),
        }
    }

    /// Its directives with symbols replaced, if they are accepted. Warnings go to standard error.
    pub fn directives(&self, symbols: Option<&Symbols>) -> Result<Parsed, CommandError> {
        let parsed = self.parse(symbols);
        if !parsed.errors.is_empty() {
            return Err(CommandError::Directives(self.refusal(&parsed)));
        }
        for warning in &parsed.warnings {
            crate::say::plain(format_args!("{}\n", self.render(warning)));
        }
        Ok(parsed)
    }

    /// All findings of a script that is refused.
    pub fn refusal(&self, parsed: &Parsed) -> String {
        let count = parsed.errors.len();
        let mut text = format!(
            "{}: {count} error{} in its directives",
            self.named.display(),
            if count == 1 { "" } else { "s" }
        );
        for finding in parsed.errors.iter().chain(&parsed.warnings) {
            text.push('\n');
            text.push_str(&self.render(finding));
        }
        text
    }

    fn render(&self, finding: &forebay_directive::Diagnostic) -> String {
        finding.render(&self.named.to_string_lossy(), &self.text).trim_end().to_string()
    }
}

/// As much as shows whether it is too large.
fn beginning(file: impl Read) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// A zero byte in the first line: compiled programs have it, scripts that carry other data have it further down.
fn is_program(text: &[u8]) -> bool {
    text.iter().take_while(|byte| **byte != b'\n').any(|byte| *byte == 0)
}
