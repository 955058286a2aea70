//! The examples of `docs/SEMANTICS.md` that need two mounts of one namespace, run on two nodes of a cluster.
//!
//! A shell sees the mounts of both nodes, `$ONE` and `$TWO`, each in a directory of the example's own, and an empty local
//! directory in `$LOCAL`.

mod deployed;
#[path = "support/examples.rs"]
mod examples;

use deployed::{Deployment, Shape};
use examples::{Example, all_succeed, series};
use forebay_testkit::process;
use std::path::Path;
use std::time::Duration;

/// The document has at least so many.
const FEWEST: usize = 6;
/// An example takes a second or two; one that waits for ever is a defect.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn two_nodes_see_what_is_promised() {
    let examples = series('M', FEWEST);
    let local = tempfile::tempdir().unwrap();
    let deployment = Deployment::start(Shape::default());
    all_succeed(&examples, |example| run(&deployment, local.path(), example));
    deployment.finish();
}

fn run(deployment: &Deployment, local: &Path, example: &Example) -> Result<(), String> {
    let name = example.name();
    std::fs::create_dir(deployment.file(0, &name)).map_err(|error| error.to_string())?;
    let mut command = example.command(&local.join(format!("{name}.under")), &local.join(&name));
    command.env("ONE", deployment.file(0, &name)).env("TWO", deployment.file(1, &name));
    let done = process::run(&mut command, LIMIT).and_then(process::Finished::success);
    done.map(drop).map_err(|error| format!("{}: {error}", example.place()))
}
