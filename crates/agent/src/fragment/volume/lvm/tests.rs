//! Texts and reports, and LVM itself on a loop device, which needs root. The kernel's part is left out there.

use super::*;
use crate::loop_device::{self, LoopDevice};
use forebay_model::units::MIB;
use std::fs::File;

/// The same call, said to LVM so that it does without the kernel's device mapper: only the group's own records change.
pub(super) fn without_kernel(call: &Call) -> Call {
    let mut words: Vec<String> = vec!["--driverloaded".into(), "n".into()];
    let mut previous = "";
    for word in &call.words {
        let switch = matches!(previous, "--activate" | "--zero" | "--wipesignatures");
        words.push(if switch { "n".into() } else { word.clone() });
        previous = word;
    }
    Call { program: call.program, words }
}

/// A volume group of 96 MiB in a file. Gone when dropped, also when a test fails.
pub(crate) struct Group {
    pub name: String,
    _device: LoopDevice,
    _dir: tempfile::TempDir,
}

impl Group {
    pub fn new() -> Group {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(format!("disk-{}-{number}", std::process::id()));
        File::create_new(&file).unwrap().set_len(100 * MIB).unwrap();
        let device = loop_device::attach(&file).unwrap();
        let name = format!("forebay-test-{}-{number}", std::process::id());
        said("vgcreate", &["--yes", "--physicalextentsize", "1m", &name, device.path.to_str().unwrap()]);
        Group { name, _device: device, _dir: dir }
    }

    pub fn lvm(&self) -> Lvm {
        Lvm { without_kernel: true, ..Lvm::new(&self.name) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let words = ["--driverloaded", "n", "--yes", "--force", &self.name];
        let _ = Command::new("vgremove").args(words).env("LVM_SUPPRESS_FD_WARNINGS", "1").output();
    }
}

/// Runs one of LVM's own programs, which must succeed.
pub(crate) fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).env("LVM_SUPPRESS_FD_WARNINGS", "1").output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; install lvm2"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(call: &Call) -> String {
    format!("{} {}", call.program, call.words.join(" "))
}

#[test]
fn these_words_are_said_to_lvm() {
    let lvm = Lvm::new("fast");
    assert_eq!(
        text(&lvm.creation("forebay_i4_f7", Bytes(24 * MIB), "box")),
        "lvcreate --yes --quiet --type linear --zero y --wipesignatures y --activate y --setactivationskip n \
         --name forebay_i4_f7 --size 25165824B --addtag forebay --addtag forebay_registry=box fast"
    );
    assert_eq!(text(&lvm.activation("v")), "lvchange --activate y --ignoreactivationskip fast/v");
    assert_eq!(
        text(&lvm.removal("v")),
        "lvremove --yes --quiet --config devices{issue_discards=1} fast/v",
        "blocks are discarded"
    );
    assert_eq!(
        text(&lvm.report_volume("v")),
        "lvs --reportformat json --units b --nosuffix --options lv_name,lv_tags,lv_size --select lv_name=v fast"
    );
    assert_eq!(
        text(&lvm.report_group()),
        "vgs --reportformat json --units b --nosuffix --options vg_free fast"
    );
    assert_eq!(lvm.device("v"), Path::new("/dev/fast/v"));
}

#[test]
fn only_whole_reports_are_read() {
    let volume =
        r#"{"report":[{"lv":[{"lv_name":"v","lv_tags":"forebay,forebay_registry=box","lv_size":"1024"}]}]}"#;
    let found = read_volume(volume).unwrap().unwrap();
    assert_eq!(found.size, Bytes(1024));
    assert!(found.is_of("box") && !found.is_of("bo") && !found.is_of("box2"));
    assert_eq!(read_volume(r#"{"report":[{"lv":[]}]}"#), Some(None));
    let two = volume.replace("[{\"lv_name", "[{\"lv_tags\":\"\",\"lv_size\":\"1\"},{\"lv_name");
    for nonsense in ["", "{}", "Volume group not found", &two, &volume.replace("1024", "1.00g")] {
        assert_eq!(read_volume(nonsense), None, "{nonsense}");
        assert_eq!(read_group(nonsense), None, "{nonsense}");
    }
    assert_eq!(read_group(r#"{"report":[{"vg":[{"vg_free":"77"}]}]}"#), Some(Bytes(77)));
}

#[test]
fn lvm_does_what_it_is_told_and_its_answers_are_understood() {
    let group = Group::new();
    let lvm = group.lvm();
    let free = lvm.free().unwrap();
    assert!(free.0 > 90 * MIB, "{free:?}");
    assert_eq!(lvm.find("v").unwrap(), None);
    lvm.create("v", Bytes(24 * MIB), "box").unwrap();
    let found = lvm.find("v").unwrap().unwrap();
    assert!(found.is_of("box") && found.size == Bytes(24 * MIB), "{found:?}");
    assert_eq!(lvm.free().unwrap(), Bytes(free.0 - 24 * MIB), "the space is the volume's from the beginning");
    let twice = lvm.create("v", Bytes(24 * MIB), "box").unwrap_err().to_string();
    assert!(twice.contains("lvcreate failed on") && twice.contains("already exists"), "{twice}");
    said("lvcreate", &["--driverloaded", "n", "-an", "-Zn", "-Wn", "-y", "-n", "w", "-L", "8m", &group.name]);
    assert!(!lvm.find("w").unwrap().unwrap().is_of("box"), "without our tags");
    lvm.remove("v").unwrap();
    assert_eq!(lvm.find("v").unwrap(), None);
    let gone = Lvm { group: "no-such-group".into(), ..group.lvm() };
    for error in [gone.free().unwrap_err(), gone.find("v").map(drop).unwrap_err()] {
        assert!(error.to_string().contains("\"no-such-group\" not found"), "{error}");
    }
}
