//! Places of mounts that an operator chooses for sessions made by hand. Pure.
//!
//! A mount covers what is below it, for everybody on the node: so only operators choose, only plain paths are taken, and no two
//! mounts of a node lie in each other. Below the controller's own directory of mounts the controller alone chooses.

use super::limits::MAX_PATH_BYTES;
use super::refusal::{Refusal, Role};
use super::request::Caller;
use super::row::*;
use super::step::Step;
use super::word::shown;
use forebay_model::ids::ConfigurationId;
use std::path::{Component, Path};

impl Step<'_> {
    /// Judges the place; it comes back without a slash at its end.
    pub(super) fn check_mount_place(
        &self,
        caller: Caller,
        session: &SessionRow,
        configuration: ConfigurationId,
        place: &str,
    ) -> Result<String, Refusal> {
        let settings = &self.state.settings;
        if !settings.is_operator(caller.uid) {
            let what = "a mount at a place of one's own choice".to_owned();
            return Err(Refusal::NotAllowed { uid: caller.uid, what, role: Role::Operators });
        }
        let invalid = |what: String| Err(Refusal::Invalid { what });
        if session.kind != SessionKind::Plain {
            return invalid(format!(
                "session {} is not made by hand: jobs find their mounts by their variables",
                session.id
            ));
        }
        let Some(path) = plain(place) else {
            let place = shown(place);
            return invalid(format!("{place:?} is no absolute path without . and .. to mount at"));
        };
        if overlap(&path, &settings.mount_root) {
            let root = &settings.mount_root;
            return invalid(format!("{} is where the controller chooses: see {root}", shown(&path)));
        }
        match self.mount_in_the_way(session, configuration, &path) {
            Some(row) => invalid(format!("activation {} is mounted at {}", row.id, row.mount)),
            None => Ok(path),
        }
    }

    /// Another mount of one of the session's nodes that lies there, or the same configuration elsewhere.
    fn mount_in_the_way(
        &self,
        session: &SessionRow,
        configuration: ConfigurationId,
        path: &str,
    ) -> Option<&ActivationRow> {
        let tables = &self.state.tables;
        let is_same = |row: &ActivationRow| (row.session, row.configuration) == (session.id, configuration);
        let is_near = |row: &ActivationRow| {
            let hosts = tables.sessions.get(&row.session).map_or(&[][..], |of| &of.hosts);
            hosts.iter().any(|host| session.hosts.binary_search(host).is_ok())
        };
        let in_the_way = |row: &&ActivationRow| match is_same(row) {
            true => row.mount != path,
            false => overlap(&row.mount, path) && is_near(row),
        };
        tables.activations.values().find(in_the_way)
    }
}

/// An absolute path below `/`, of names only.
fn plain(place: &str) -> Option<String> {
    let path = place.trim_end_matches('/');
    let named = |component| matches!(component, Component::RootDir | Component::Normal(_));
    let good = path.starts_with('/')
        && path.len() <= MAX_PATH_BYTES
        && !path.contains("//")
        && !path.contains(char::is_control)
        && Path::new(path).components().all(named);
    // A single dot in the middle is no component.
    (good && !path.split('/').any(|name| name == ".")).then(|| path.to_owned())
}

/// One lies in the other, or they are the same.
fn overlap(one: &str, other: &str) -> bool {
    Path::new(one).starts_with(other) || Path::new(other).starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_places() {
        for (place, path) in [("/a", "/a"), ("/scratch/one/", "/scratch/one"), ("/a b", "/a b")] {
            assert_eq!(plain(place).as_deref(), Some(path));
        }
        let long = format!("/{}", "x".repeat(MAX_PATH_BYTES));
        for place in ["", "/", "a", "./a", "/a/../b", "/a/./b", "/a//b", "/a\nb", "/a\0", &long] {
            assert_eq!(plain(place), None, "{place:?}");
        }
    }

    #[test]
    fn places_overlap_by_whole_names() {
        assert!(overlap("/a", "/a") && overlap("/a/b", "/a") && overlap("/a", "/a/b/c"));
        assert!(!overlap("/a", "/ab") && !overlap("/a/b", "/a/c"));
    }
}
