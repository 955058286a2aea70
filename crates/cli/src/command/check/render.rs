//! A checked script as text and as JSON.
//!
//! Pure. The JSON has the keys `file`, `directives` (each with `line`, `column`, `text`, the typed directive and, where
//! it allocates, `allocation`), `warnings` and `errors`; keys are only ever added.

use super::preview::{Preview, preview};
use crate::command::script_file::ScriptFile;
use crate::job::plan::Plan;
use crate::offer::Offers;
use forebay_directive::{Directive, Located, Parsed};
use forebay_model::allocate::Strategy;
use serde_json::{Value, json};
use std::fmt::Write;

/// What a directive would allocate.
fn allocation(directive: &Directive, offers: &Offers) -> Option<Preview> {
    match directive {
        Directive::JobDw(job) => {
            Some(preview(job.capacity, job.pool.as_deref(), job.effective_strategy(), offers))
        }
        Directive::CreatePersistent(create) => {
            Some(preview(create.capacity, create.pool.as_deref(), Strategy::default(), offers))
        }
        _ => None,
    }
}

/// Why one machine cannot carry a directive out.
fn refusal(directive: &Located<Directive>) -> Option<String> {
    let refused = Plan::new(std::slice::from_ref(directive), None).err()?;
    Some(refused.iter().map(|refused| refused.refusal.to_string()).collect::<Vec<_>>().join("; "))
}

/// Text for people.
pub fn text(script: &ScriptFile, parsed: &Parsed, offers: &Offers) -> String {
    let count = parsed.directives.len();
    let mut text =
        format!("{}: {count} directive{}\n", script.named.display(), if count == 1 { "" } else { "s" });
    for directive in &parsed.directives {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  line {:<4} {}", directive.line, directive.value);
        if let Some(allocation) = allocation(&directive.value, offers) {
            let _ = writeln!(text, "            {allocation}");
        }
        if let Some(refusal) = refusal(directive) {
            let _ = writeln!(text, "            not on this machine: {refusal}");
        }
    }
    for warning in &parsed.warnings {
        text.push_str(warning.render(&script.named.to_string_lossy(), &script.text).trim_end());
        text.push('\n');
    }
    text
}

/// JSON for programs.
pub fn json(script: &ScriptFile, parsed: &Parsed, offers: &Offers) -> Value {
    let directives: Vec<Value> = parsed.directives.iter().map(|directive| entry(directive, offers)).collect();
    json!({
        "file": script.named.to_string_lossy(),
        "directives": directives,
        "warnings": parsed.warnings,
        "errors": parsed.errors,
    })
}

fn entry(directive: &Located<Directive>, offers: &Offers) -> Value {
    let mut entry = json!({
        "line": directive.line,
        "column": directive.column,
        "text": directive.value.to_string(),
        "value": directive.value,
    });
    if let Some(allocation) = allocation(&directive.value, offers) {
        entry["allocation"] = json!(allocation);
    }
    if let Some(refusal) = refusal(directive) {
        entry["refused_here"] = json!(refusal);
    }
    entry
}
