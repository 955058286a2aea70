//! `dwcli stage query`: one line for each staging of a configuration.
//!
//! Columns: path in the burst buffer, path on the parallel file system, namespaces, then complete, queued and failed of
//! stage-ins (`->`) and of stage-outs (`<-`), and deferred stage-outs. None is `-`, so the eighth column is `-` as soon
//! as nothing remains to be staged out; scripts wait for that. Complete are files, queued and failed are stagings. Pure.

use crate::dwstat::table::{Align, Column, Table};
use forebay_controller::cluster::row::{StageOutcome, StageRow};
use forebay_controller::request::StageDirection;

static COLUMNS: [Column; 10] = [
    ("path", Align::Right),
    ("backing-path", Align::Right),
    ("nss", Align::Right),
    ("->c", Align::Right),
    ("->q", Align::Right),
    ("->f", Align::Right),
    ("<-c", Align::Right),
    ("<-q", Align::Right),
    ("<-f", Align::Right),
    ("<-m", Align::Right),
];

/// The table, and a line for each failure. Without a staging: that there is none.
pub fn render(stages: &[&StageRow]) -> String {
    if stages.is_empty() {
        return "no stagings\n".to_owned();
    }
    let mut table = Table::new(&COLUMNS);
    stages.iter().for_each(|stage| row(stage).iter().for_each(|cell| table.text(cell)));
    let mut text = table.finish();
    for stage in stages {
        if let StageOutcome::Failed { text: reason } = &stage.outcome {
            text.push_str(&format!("failed: {}\n", crate::wlm::text::one_line(reason)));
        }
    }
    text
}

fn row(stage: &StageRow) -> Vec<String> {
    let (complete, queued, failed) = match &stage.outcome {
        StageOutcome::Done { files, .. } => (*files, 0, 0),
        StageOutcome::Pending => (0, 1, 0),
        StageOutcome::Failed { .. } => (0, 0, 1),
    };
    let counts =
        [complete, queued, failed].map(|count| if count == 0 { "-".to_owned() } else { count.to_string() });
    let none = ["-", "-", "-"].map(String::from);
    let (inward, outward) = match stage.direction {
        StageDirection::In => (counts, none),
        StageDirection::Out => (none, counts),
    };
    let path = format!("/{}", String::from_utf8_lossy(&stage.instance_path));
    let backing = String::from_utf8_lossy(&stage.pfs).into_owned();
    [path, backing, "1".to_owned()].into_iter().chain(inward).chain(outward).chain(["-".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_controller::cluster::row::StageId;
    use forebay_controller::request::StageKind;
    use forebay_model::ids::*;
    use forebay_model::units::Bytes;

    fn stage(direction: StageDirection, outcome: StageOutcome) -> StageRow {
        StageRow {
            id: StageId(1),
            session: SessionId(7),
            configuration: ConfigurationId(9),
            direction,
            kind: StageKind::Directory,
            pfs: b"/lus/a b/".to_vec(),
            instance_path: b"results".to_vec(),
            tolerate_errors: false,
            live: true,
            wanted: true,
            outcome,
        }
    }

    fn eighth(text: &str) -> Vec<&str> {
        text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(7)).collect()
    }

    #[test]
    fn the_eighth_column_says_whether_something_remains() {
        let done = stage(StageDirection::Out, StageOutcome::Done { files: 3, bytes: Bytes(9) });
        let pending = stage(StageDirection::Out, StageOutcome::Pending);
        let inward = stage(StageDirection::In, StageOutcome::Pending);
        assert_eq!(eighth(&render(&[&done, &pending, &inward])), ["-", "1", "-"]);
        assert_eq!(
            render(&[&done]),
            "    path backing-path nss ->c ->q ->f <-c <-q <-f <-m \n/results    /lus/a_b/   1   -   -   -   3   -   -   - \n"
        );
        assert_eq!(render(&[]), "no stagings\n");
    }

    #[test]
    fn failures_are_told_with_their_reason() {
        let failed = stage(StageDirection::Out, StageOutcome::Failed { text: "disk\nfull".into() });
        let text = render(&[&failed]);
        assert!(text.ends_with("failed: disk full\n"), "{text}");
    }
}
