//! What `dwcli` says of a request that was accepted: the words that DataWarp used, since scripts take the id from them.
//! Pure.

use forebay_controller::cluster::effect::ObjectKind;

/// The table of dwstat that shows it.
pub fn table(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Session => "sessions",
        ObjectKind::Instance => "instances",
        ObjectKind::Configuration => "configurations",
        ObjectKind::Registration => "registrations",
        ObjectKind::Activation => "activations",
        ObjectKind::Stage => "stages",
    }
}

/// `create request for configurations entity with id = 1776 accepted, "dwstat configurations" for status`
pub fn accepted(verb: &str, table: &str, id: &str) -> String {
    format!("{verb} request for {table} entity with id = {id} accepted, \"dwstat {table}\" for status\n")
}

/// The same of a staging, which dwstat does not show.
pub fn stage_accepted(verb: &str, id: u64, session: u64, configuration: u64) -> String {
    let query = format!("dwcli stage query --session {session} --configuration {configuration}");
    format!("stage {verb} request with id = {id} accepted, \"{query}\" for status\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_that_scripts_know() {
        assert_eq!(
            accepted("create", table(ObjectKind::Configuration), "1776"),
            "create request for configurations entity with id = 1776 accepted, \"dwstat configurations\" for status\n"
        );
    }
}
