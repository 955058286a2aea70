//! The commands of nodes as a user meets them: what is refused, how that is said, and with which status.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CONFIG: &str = r#"listen = ["127.0.0.1:0"]
state = "STATE"

[[instance]]
id = 17
name = "job4711"
fragment = "FRAGMENT"
space = "1GiB"
position = 0
token_file = "TOKEN"
seal_file = "SEAL"

[[instance.server]]
address = "127.0.0.1:7070"

[[instance.namespace]]
name = "c1"
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path("fragment")).unwrap();
        for secret in ["token", "seal"] {
            std::fs::write(place.path(secret), [b'x'; 32]).unwrap();
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(place.path(secret), mode).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn config(&self, from: &str, to: &str) -> PathBuf {
        let mut text = CONFIG.replacen(from, to, 1);
        for name in ["state", "fragment", "token", "seal"] {
            text = text.replace(&name.to_uppercase(), self.path(name).to_str().unwrap());
        }
        let path = self.path("server.toml");
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn forebay(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn print_config(path: &Path) -> (Option<i32>, String, String) {
    said(&forebay(&[&"serve", &"--config", &path, &"--print-config"]))
}

#[test]
fn the_effective_configuration_is_one_that_can_be_read() {
    let place = Place::new();
    let (status, printed, complaint) = print_config(&place.config("", ""));
    assert_eq!((status, complaint.as_str()), (Some(0), ""));
    assert!(printed.contains("\ngrace_s = 30\n") && printed.contains("\nhome = 0\n"), "{printed}");
    let again = place.path("again.toml");
    std::fs::write(&again, &printed).unwrap();
    let same = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(same(&print_config(&again).1), same(&printed));
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_what_could_be_there() {
    let place = Place::new();
    let (status, printed, complaint) = print_config(&place.config("position", "posision"));
    assert_eq!((status, printed.as_str()), (Some(78), ""));
    for part in ["server.toml", "line 9", "unknown field `posision`", "expected one of", "`position`"] {
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
    let (status, _, complaint) = print_config(&place.config("position = 0", "position = 1"));
    assert_eq!(status, Some(78));
    assert!(complaint.contains("line 9: position = 1: 0 to 0 is possible"), "{complaint}");
}

#[test]
fn a_configuration_has_to_be_named() {
    for command in [&["serve", "--print-config"][..], &["fsck"]] {
        let (status, _, complaint) =
            said(&Command::new(env!("CARGO_BIN_EXE_forebay")).args(command).output().unwrap());
        assert_eq!(status, Some(2));
        assert!(
            complaint.contains("--config: the configuration of the server has to be named"),
            "{complaint}"
        );
    }
}

#[test]
fn nothing_but_a_mount_of_ours_is_unmounted() {
    let place = Place::new();
    for (path, wanted) in
        [(place.path("fragment"), "nothing of forebay is mounted"), ("/proc".into(), "type proc")]
    {
        let (status, _, complaint) = said(&forebay(&[&"umount", &path]));
        assert_eq!(status, Some(69));
        assert!(complaint.contains(wanted), "{complaint}");
    }
    assert!(Path::new("/proc/self").exists());
}

#[test]
fn fsck_tells_what_it_finds_and_moves_it_when_asked() {
    let place = Place::new();
    let config = place.config("", "");
    // Data of an instance whose record is gone: nobody knows whose it is.
    std::fs::create_dir_all(place.path("fragment/ns/c1/data/01")).unwrap();
    let substripe = place.path("fragment/ns/c1/data/01/0000000000000001.0");
    std::fs::write(&substripe, "data").unwrap();
    let fsck = |options: &[&dyn AsRef<std::ffi::OsStr>]| {
        said(&forebay(&[&[&"fsck" as &dyn AsRef<_>, &"--config", &config], options].concat()))
    };
    let (status, printed, _) = fsck(&[&"--repair"]);
    assert_eq!(status, Some(4), "{printed}");
    assert!(printed.contains("job4711: server 0: fragment.json is missing beside data"), "{printed}");
    assert!(substripe.exists());

    let record = r#"{"format":1,"instance":"00112233445566778899aabbccddeeff","index":0,"count":1}"#;
    std::fs::write(place.path("fragment/fragment.json"), record).unwrap();
    let (status, printed, _) = fsck(&[]);
    assert_eq!(status, Some(4), "{printed}");
    assert!(printed.contains("belongs to no file; a repair moves it to lost+found"), "{printed}");
    assert!(substripe.exists());
    let (status, printed, _) = fsck(&[&"--repair"]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("1 repaired, 0 left"), "{printed}");
    let moved = place.path("fragment/lost+found/c1/0000000000000001.0");
    assert_eq!(std::fs::read_to_string(moved).unwrap(), "data");
    assert_eq!(fsck(&[]).0, Some(0));
}
