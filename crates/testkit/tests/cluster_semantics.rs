//! The examples of `docs/SEMANTICS.md` that need two mounts of one namespace, run on two nodes of a cluster.
//!
//! A shell sees the mounts of both nodes, `$ONE` and `$TWO`, each in a directory of the example's own, and an empty local
//! directory in `$LOCAL`.

mod deployed;
#[path = "support/examples.rs"]
mod examples;

use deployed::{Deployment, Shape};
use examples::{Example, all_succeed, series};
use forebay_testkit::identity::Identity;
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

/// Both nodes keep what they read.
#[test]
fn two_nodes_that_cache_see_what_is_promised_of_close_to_open() {
    let examples = series('C', 2);
    let local = tempfile::tempdir().unwrap();
    let mut deployment = Deployment::serve(Shape::default());
    let file = deployment.instance_file();
    let description = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("cache = \"close-to-open\"\n{description}")).unwrap();
    for client in 0..2 {
        deployment.mount(client, &Identity::root());
    }
    all_succeed(&examples, |example| run(&deployment, local.path(), example));
    // What nobody changed is not read again, whoever opens it.
    // Who leaves has told all that he read.
    (0..2).for_each(|client| deployment.unmount(client));
    let before = bytes_read(&deployment);
    (0..2).for_each(|client| deployment.mount(client, &Identity::root()));
    deployment.shell(0, &Identity::root(), "head -c 1000000 /dev/urandom > once; sleep 2.1");
    deployment.shell(1, &Identity::root(), "for n in 1 2 3 4; do cat once > /dev/null; done");
    deployment.unmount(1);
    let read = bytes_read(&deployment) - before;
    assert!((1_000_000..2_000_000).contains(&read), "{read} bytes for a million");
    deployment.finish();
}

/// What clients have read so far, as far as they have told.
fn bytes_read(deployment: &Deployment) -> u64 {
    let file = deployment.instance_file();
    let arguments = ["status", "--json", "--instance", file.to_str().expect("plain path")];
    let asked = deployment.client(0).success(&mut deployment.forebay(&arguments), LIMIT);
    let told = asked.unwrap_or_else(|error| panic!("{error}")).output;
    let of_namespaces = told.split("\"namespaces\":").nth(1);
    let figure = of_namespaces.and_then(|text| text.split("\"bytes_read\": ").nth(1)).unwrap_or_default();
    let digits: String = figure.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no figure in {told}"))
}

fn run(deployment: &Deployment, local: &Path, example: &Example) -> Result<(), String> {
    let name = example.name();
    std::fs::create_dir(deployment.file(0, &name)).map_err(|error| error.to_string())?;
    let mut command = example.command(&local.join(format!("{name}.under")), &local.join(&name));
    command.env("ONE", deployment.file(0, &name)).env("TWO", deployment.file(1, &name));
    let done = process::run(&mut command, LIMIT).and_then(process::Finished::success);
    done.map(drop).map_err(|error| format!("{}: {error}", example.place()))
}
