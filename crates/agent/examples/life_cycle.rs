//! Prints how long each step of an instance's life takes, in milliseconds, for the ways of serving this machine allows.
//!
//! `cargo run --release -p forebay-agent --example life_cycle -- [rounds] [capacity in MiB]`. Medians over the rounds;
//! works in a temporary directory below the current one. The program also plays the instance process.

use forebay_agent::{
    Agent, Capabilities, ConfigurationDescription, FragmentDescription, InstanceDescription, Serving,
};
use forebay_model::ids::{ConfigurationId, FragmentId, InstanceId};
use forebay_model::objects::AccessMode;
use forebay_model::units::{Bytes, MIB};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const STEPS: [&str; 9] =
    ["detect", "create", "attach", "mount", "write", "unmount", "detach", "destroy", "discard"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "instance-process") {
        return forebay_agent::process::main(std::env::args_os().skip(2));
    }
    let number = |index: usize, default| arguments.get(index).map_or(Ok(default), |word| word.parse::<u64>());
    let (Ok(rounds), Ok(capacity)) = (number(0, 9), number(1, 4096)) else {
        eprintln!("usage: life_cycle [rounds] [capacity in MiB]");
        return ExitCode::from(64);
    };
    println!("{:<44}{}", "", STEPS.map(|step| format!("{step:>9}")).concat());
    let ways = [
        (Serving::DirectXfs, 1),
        (Serving::Fuse { passthrough: true }, 1),
        (Serving::Fuse { passthrough: false }, 4),
        (Serving::PlainDirectory, 1),
    ];
    for (way, fragments) in ways {
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); STEPS.len()];
        for _ in 0..rounds.max(1) {
            if let Err(error) = life(way, fragments, capacity * MIB, &mut times) {
                println!("{}: {error}", way.describe());
                break;
            }
        }
        print_medians(way, &mut times);
    }
    ExitCode::SUCCESS
}

fn print_medians(way: Serving, times: &mut [Vec<f64>]) {
    let mut line = format!("{:<44}", way.describe());
    for step in times {
        step.sort_by(f64::total_cmp);
        let median = step.get(step.len() / 2);
        line.push_str(&median.map_or("        -".to_owned(), |median| format!("{median:>9.2}")));
    }
    println!("{line}");
}

fn life(
    way: Serving,
    fragments: u64,
    capacity: u64,
    times: &mut [Vec<f64>],
) -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir_in(".")?;
    let place = place.path().canonicalize()?;
    let mut begin = Instant::now();
    let mut step = 0;
    let mut done = |begin: &mut Instant| {
        times[step].push(begin.elapsed().as_secs_f64() * 1e3);
        step += 1;
        *begin = Instant::now();
    };
    let capabilities = Capabilities::detect();
    done(&mut begin);
    let agent = Agent::new(place.join("instances"), capabilities);
    let description = description(&place, fragments, capacity);
    agent.create_instance(&description, Some(way))?;
    done(&mut begin);
    let mut attachment = agent.attach(description.instance)?;
    done(&mut begin);
    let configuration = description.configurations[0].id;
    let mount = attachment.mount(configuration)?;
    done(&mut begin);
    std::fs::write(mount.join("result"), "42")?;
    done(&mut begin);
    attachment.unmount(configuration)?;
    done(&mut begin);
    attachment.detach()?;
    done(&mut begin);
    agent.destroy_instance(description.instance)?;
    done(&mut begin);
    // A second one, for the last step that replaces the two before.
    agent.create_instance(&description, Some(way))?;
    let mut attachment = agent.attach(description.instance)?;
    attachment.mount(configuration)?;
    attachment.unmount(configuration)?;
    begin = Instant::now();
    attachment.discard()?;
    done(&mut begin);
    Ok(())
}

fn description(place: &Path, fragments: u64, capacity: u64) -> InstanceDescription {
    let fragment = |number| FragmentDescription {
        id: FragmentId(number),
        node: format!("node{number}"),
        directory: place.join(format!("fragment{number}")),
        capacity: Bytes(capacity / fragments),
    };
    InstanceDescription {
        instance: InstanceId(1),
        label: "I1-0".into(),
        fragments: (0..fragments).map(fragment).collect(),
        configurations: vec![ConfigurationDescription {
            id: ConfigurationId(1),
            access_mode: AccessMode::Striped,
            max_file_size: None,
            max_files: None,
            mount: place.join("mount"),
        }],
        stripe_size: Bytes(8 * MIB),
        substripes: if fragments == 1 { 1 } else { 3 },
        write_window: None,
        policies: Default::default(),
    }
}
