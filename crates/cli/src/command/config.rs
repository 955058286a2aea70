//! `forebay config`: the configuration that counts, as a configuration file.

use crate::args::PoolArguments;
use crate::config::Config;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::Places;
use crate::say;
use crate::state_dir::StateDir;
use forebay_model::capacity::format::exact;
use std::fmt::Write;

/// Prints the effective configuration.
pub fn config(places: Places<'_>, pool: &PoolArguments) -> Result<Exit, CommandError> {
    let state = StateDir::from_environment(places.state_dir)?;
    let options = pool.options().map_err(CommandError::file("find", "--pool-dir"))?;
    say::answer(render(&places.config(&options, &state)?)).map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

/// The configuration in the form that [`Config::read`] takes.
fn render(config: &Config) -> String {
    let mut text = match &config.source {
        Some(path) => format!("# from {}\n", path.display()),
        None => "# built in: there is no configuration file\n".to_string(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "default_pool = {:?}", config.default_pool);
    for pool in &config.pools {
        let _ =
            writeln!(text, "\n[[pool]]\nname = {:?}\ngranularity = {:?}", pool.name, exact(pool.granularity));
        let _ = writeln!(text, "stripe_size = {:?}", exact(pool.stripe_size));
        if let Some(substripes) = pool.substripes {
            let _ = writeln!(text, "substripes = {substripes}");
        }
        for node in &pool.nodes {
            let _ =
                writeln!(text, "\n[[pool.node]]\nname = {:?}\ndirectory = {:?}", node.name, node.directory);
            if let Some(capacity) = node.capacity {
                let _ = writeln!(text, "capacity = {:?}", exact(capacity));
            }
        }
    }
    let policy = &config.policy;
    let _ = writeln!(text, "\n[policy]\nwrite_window = {:?}", policy.write_window.name());
    let _ = writeln!(text, "file_size = {:?}", policy.file_size.name());
    let _ = writeln!(text, "file_count = {:?}", policy.file_count.name());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PoolOptions;
    use forebay_model::limits::{InstancePolicies, Policy};

    #[test]
    fn what_is_printed_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let options = PoolOptions { nodes: Some(3), directories: vec!["/a".into()] };
        let built_in = Config::built_in(&options, directory.path());
        let policy =
            InstancePolicies { write_window: Policy::Log, file_count: Policy::Both, ..built_in.policy };
        let config = Config { policy, ..built_in };
        let file = directory.path().join("forebay.toml");
        std::fs::write(&file, render(&config)).unwrap();
        let read = Config::read(&file, directory.path()).unwrap();
        assert_eq!(Config { source: None, ..read }, config);
    }
}
