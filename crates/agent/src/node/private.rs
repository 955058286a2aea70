//! Names of namespaces that a client has for itself: `<template>-n<number>-h<home>`. Pure.
//!
//! Everything that the servers have to know is in the name, so that all of them make the same namespace of it without
//! asking anybody, and find it again after a start.

use super::server_config::NamespaceConfig;
use forebay_server::local::NamespaceSpec;

/// The name of a client's namespace; the controller gives the number.
pub fn private_name(template: &str, number: u64, home: u32) -> String {
    format!("{template}-n{number}-h{home}")
}

/// The namespace of this name, if it is one of these templates and its home one of so many servers.
pub(super) fn private_namespace(
    name: &str,
    templates: &[NamespaceSpec],
    servers: u32,
) -> Option<NamespaceConfig> {
    let (rest, home) = name.rsplit_once("-h")?;
    let (template, number) = rest.rsplit_once("-n")?;
    let template = templates.iter().find(|known| known.name == template)?;
    let (number, home) = (number.parse().ok()?, home.parse().ok().filter(|home| *home < servers)?);
    // One namespace has one name: no leading zeros, no signs.
    (private_name(&template.name, number, home) == name)
        .then(|| NamespaceConfig { home, spec: NamespaceSpec { name: name.to_owned(), ..template.clone() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_server::local::Limits;

    fn templates() -> Vec<NamespaceSpec> {
        let spec = |name: &str, max_files| NamespaceSpec {
            name: name.to_owned(),
            layout: Default::default(),
            limits: Limits { max_files: Some(max_files), ..Limits::default() },
        };
        vec![spec("c5", 5), spec("c5-n1-h0", 6)]
    }

    #[test]
    fn what_was_named_is_found_with_its_template() {
        let find = |name: &str| private_namespace(name, &templates(), 3);
        let found = find(&private_name("c5", 17, 2)).unwrap();
        assert_eq!((found.home, found.spec.name.as_str()), (2, "c5-n17-h2"));
        assert_eq!(found.spec.limits.max_files, Some(5));
        let nested = find("c5-n1-h0-n17-h2").unwrap();
        assert_eq!(nested.spec.limits.max_files, Some(6));
    }

    #[test]
    fn other_names_are_none() {
        for name in [
            "c5",
            "c6-n1-h0",
            "c5-n1-h3",
            "c5-n01-h0",
            "c5-n1-h00",
            "c5-n+1-h0",
            "c5-n-h0",
            "c5-n1",
            "-n1-h0",
            "",
        ] {
            assert_eq!(private_namespace(name, &templates(), 3), None, "{name}");
        }
    }
}
