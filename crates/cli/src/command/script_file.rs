//! Reading a script and its directives, with every finding told at once.

use crate::error::CommandError;
use forebay_directive::{Parsed, Symbols, parse_bb_option, parse_lines_with, parse_script_with};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest script: Slurm's own default limit is 4 MiB, generated scripts may be larger.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

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
    /// Reads a file.
    pub fn read(path: &Path, form: Form) -> Result<ScriptFile, CommandError> {
        let failed = |source| CommandError::Script { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let mut file = File::open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.by_ref().take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > SCRIPT_BYTES_MAX {
            let problem =
                format!("it is larger than {} MiB, which no batch script is", SCRIPT_BYTES_MAX >> 20);
            return Err(CommandError::Option { option: path.display().to_string(), problem });
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
