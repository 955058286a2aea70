"""The Debian packages: fields, contents, maintainer scripts and units, looked at in packages that scripts/deb.sh made.

The programs in them are stand-ins (copies of /bin/true), so no build is needed; what is looked at is the packaging. Scripts run with
stand-ins of systemd's and Debian's commands that write down how they were called, below a directory of the test's own.

Run with: python3 -m unittest discover -s tests/packaging
"""

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ("forebay", "dwstat", "dwcli", "dw_wlm_cli")
PACKAGES = ("forebay-client", "forebay-controller", "forebay-dev", "forebay-node")
SERVICES = {
    "forebay-controller": ("forebay-controller.service", "/var/lib/forebay/controller"),
    "forebay-node": ("forebay-agent.service", "/var/lib/forebay/agent"),
}
NOBODY = 65534
# Time of the files in the packages, in seconds; any past one.
EPOCH = "1700000000"
SCRIPTS = ("postinst", "prerm", "postrm")
# What gives a unit a mount namespace of its own (systemd.exec): mounts that the agent makes would stay in there.
OWN_NAMESPACE = re.compile(
    r"^(Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc|Clock|Hostname)|Private\w+|ProcSubset"
    r"|(ReadWrite|ReadOnly|Inaccessible|Exec|NoExec)Paths|Bind(ReadOnly)?Paths|TemporaryFileSystem|RootDirectory|RootImage"
    r"|MountFlags|MountImages|DynamicUser)=",
    re.MULTILINE,
)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def build(programs, output, **environment):
    command = [ROOT / "scripts/deb.sh", "--programs", programs, "--output", output]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment})


def stand_ins(directory):
    directory.mkdir()
    for name in PROGRAMS:
        shutil.copy("/bin/true", directory / name)
    return directory


def setUpModule():
    """The packages are built once for all tests."""
    if not shutil.which("dpkg-deb"):
        raise unittest.SkipTest("dpkg-deb is not there: packages are built on Debian and its relatives only")
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    Packages.work = work = Path(directory.name)
    done = build(stand_ins(work / "programs"), work / "deb")
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    (work / "trees").mkdir()
    for file in (work / "deb").iterdir():
        name = file.name.split("_")[0]
        Packages.files[name] = file
        Packages.trees[name] = work / "trees" / name
        run("dpkg-deb", "--raw-extract", file, Packages.trees[name])


class Packages(unittest.TestCase):
    """Looks into the packages; the classes below ask."""

    work = None
    files = {}
    trees = {}

    def field(self, package, name):
        return run("dpkg-deb", "--field", self.files[package], name).strip()

    def listing(self, package):
        """Path -> (mode, owner, what follows the path)."""
        lines = run("dpkg-deb", "--contents", self.files[package]).splitlines()
        words = [line.split(None, 5) for line in lines]
        return {path.split(" -> ")[0]: (mode, owner, path) for mode, owner, _, _, _, path in words}

    def script(self, package, script):
        return self.trees[package] / "DEBIAN" / script

    def unit(self, package):
        return self.trees[package] / "usr/lib/systemd/system" / SERVICES[package][0]


class Contents(Packages):
    def test_there_is_one_package_for_each_role_and_no_empty_one(self):
        self.assertEqual(sorted(self.files), sorted(PACKAGES))

    def test_versions_and_architectures(self):
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        for package in PACKAGES:
            self.assertEqual(self.field(package, "Version"), version.replace("-", "~"))
        self.assertEqual(self.field("forebay-client", "Architecture"), run("dpkg", "--print-architecture").strip())

    def test_the_maintainer_is_whoever_names_himself(self):
        self.assertEqual(self.field("forebay-node", "Maintainer"), "Forebay developers <forebay@localhost>")
        output = self.work / "named"
        done = build(self.work / "programs", output, FOREBAY_MAINTAINER="Ann O'Nym <ann@site.example>")
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = [run("dpkg-deb", "--field", file, "Maintainer").strip() for file in output.iterdir()]
        self.assertEqual(fields, ["Ann O'Nym <ann@site.example>"] * len(PACKAGES))
        for wrong in ("ann", "Ann <ann>", "Ann <ann@a b>", "a/b <a@b>", "A <a@b>\nDepends: x"):
            refused = build(self.work / "programs", self.work / "refused", FOREBAY_MAINTAINER=wrong)
            self.assertEqual((refused.returncode, "write Name <address>" in refused.stderr), (1, True), wrong)
            self.assertFalse((self.work / "refused").exists())

    def test_dependencies(self):
        self.assertIn("libc6", self.field("forebay-client", "Depends"))
        version = self.field("forebay-client", "Version")
        for package, wanted in {"forebay-controller": [], "forebay-node": ["fuse3", "xfsprogs"]}.items():
            depends = self.field(package, "Depends").split(", ")
            for other in ["munge", "libmunge2", f"forebay-client (= {version})", *wanted]:
                self.assertIn(other, depends)

    def test_everything_belongs_to_root_and_nothing_is_writable_by_others(self):
        for package in PACKAGES:
            for path, (mode, owner, _) in self.listing(package).items():
                self.assertEqual(owner, "root/root", path)
                if not mode.startswith("l"):
                    self.assertNotIn("w", mode[4:], path)
                    self.assertNotIn("s", mode, path)

    def test_the_programs_are_where_slurm_and_users_look(self):
        listing = self.listing("forebay-client")
        for name in PROGRAMS:
            self.assertEqual(listing[f"./usr/bin/{name}"][0], "-rwxr-xr-x")
        for link in ("dw_wlm/default/bin/dw_wlm_cli", "dws/default/bin/dwstat", "dws/default/bin/dwcli"):
            self.assertTrue(listing[f"./opt/cray/{link}"][2].endswith(f" -> /usr/bin/{Path(link).name}"))

    def test_developers_get_the_interface_on_every_machine(self):
        self.assertEqual(self.field("forebay-dev", "Architecture"), "all")
        interface = self.trees["forebay-dev"] / "usr/share/forebay/openapi.json"
        self.assertEqual(interface.read_bytes(), (ROOT / "docs/openapi.json").read_bytes())

    def test_nodes_get_settings_of_the_kernel(self):
        settings = [path for path in self.listing("forebay-node") if path.endswith(".conf")]
        self.assertEqual(settings, ["./usr/lib/sysctl.d/50-forebay-node.conf"])
        self.assertEqual([path for path in self.listing("forebay-controller") if "sysctl" in path], [])

    def test_no_file_is_in_two_packages(self):
        seen = {}
        for package in PACKAGES:
            for path, (mode, _, _) in self.listing(package).items():
                if not mode.startswith("d"):
                    self.assertNotIn(path, seen)
                    seen[path] = package

    def test_what_is_below_etc_is_a_configuration_file_of_dpkg(self):
        wanted = {"forebay-controller": ["client.toml", "controller.toml"], "forebay-node": ["agent.toml"], "forebay-client": [], "forebay-dev": []}
        for package, names in wanted.items():
            in_etc = [path[1:] for path, entry in self.listing(package).items() if path.startswith("./etc/") and entry[0][0] == "-"]
            listed = self.trees[package] / "DEBIAN/conffiles"
            self.assertEqual(sorted(in_etc), sorted(listed.read_text().split() if listed.exists() else []))
            self.assertEqual(sorted(in_etc), [f"/etc/forebay/{name}" for name in names])

    def test_state_is_for_root_alone(self):
        for package, (_, state) in SERVICES.items():
            self.assertEqual(self.listing(package)[f".{state}/"][0], "drwx------")

    def test_sums_are_those_of_the_files(self):
        for package in PACKAGES:
            run("md5sum", "--check", "--strict", "DEBIAN/md5sums", cwd=self.trees[package])

    def test_configuration_is_toml_and_what_is_commented_out_too(self):
        for path in sorted((ROOT / "packaging").glob("*/*.toml")):
            text = path.read_text()
            tomllib.loads(text)
            tomllib.loads(re.sub(r"^#(?=\S)", "", text, flags=re.MULTILINE))


class Building(Packages):
    def test_the_same_programs_give_the_same_packages(self):
        again = build(self.work / "programs", self.work / "again")
        self.assertEqual(again.returncode, 0, again.stderr)
        for path in (self.work / "deb").iterdir():
            self.assertEqual(path.read_bytes(), (self.work / "again" / path.name).read_bytes(), path.name)

    @unittest.skipUnless(os.geteuid() == 0, "another user can only be tried by root")
    def test_a_user_without_privileges_makes_the_same_packages(self):
        self.work.chmod(0o755)
        sources = self.work / "sources"
        for name in ("packaging", "scripts", "docs"):
            shutil.copytree(ROOT / name, sources / name)
        for name in ("Cargo.toml", "LICENSE", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, sources / name)
        run("chmod", "-R", "u=rwX,go=rX", sources)
        output = self.work / "others"
        output.mkdir()
        os.chown(output, NOBODY, NOBODY)
        command = [sources / "scripts/deb.sh", "--programs", self.work / "programs", "--output", output]
        environment = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": EPOCH}
        run(*command, env=environment, user=NOBODY, group=NOBODY, extra_groups=[], umask=0o077)
        for path in (self.work / "deb").iterdir():
            self.assertEqual(path.read_bytes(), (output / path.name).read_bytes(), path.name)

    def test_without_shlibdeps_the_libraries_are_listed_by_hand(self):
        done = build(self.work / "programs", self.work / "by-hand", FOREBAY_SHLIBDEPS="no-such-program")
        self.assertEqual(done.returncode, 0, done.stderr)
        file = next((self.work / "by-hand").glob("forebay-client_*"))
        self.assertRegex(run("dpkg-deb", "--field", file, "Depends"), r"^libc6 \(>= 2\.\d+\), libgcc-s1$")

    def test_a_missing_program_is_named_and_nothing_is_made(self):
        programs = stand_ins(self.work / "incomplete")
        (programs / "dwcli").unlink()
        done = build(programs, self.work / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("dwcli is not there", done.stderr)
        self.assertFalse((self.work / "none").exists())

    def test_wrong_usage(self):
        for words in (["--programs"], ["--colour", "red"], ["x"]):
            done = subprocess.run([ROOT / "scripts/deb.sh", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage:", done.stderr)


class Scripts(Packages):
    """Commands that scripts call are stand-ins that write their words to `calls`; paths of the system are the test's."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.place = Path(directory.name)
        self.calls = self.place / "calls"
        (self.place / "bin").mkdir()
        for name in ("deb-systemd-helper", "deb-systemd-invoke", "systemctl"):
            command = self.place / "bin" / name
            # Never enabled by anybody else: `was-enabled` is true unless the file `disabled` is there.
            command.write_text(
                f'#!/bin/sh\necho "{name} $*" >>"{self.calls}"\n'
                f'case "$*" in *was-enabled*) [ ! -e "{self.place}/disabled" ] ;; esac\n'
            )
            command.chmod(0o755)

    def carry_out(self, package, script, *words):
        """The calls that it made, and what it said."""
        text = self.script(package, script).read_text()
        for path in ("/run/systemd", "/var/lib/forebay", "/etc/forebay", "/proc/sys", "/usr/lib/sysctl.d"):
            text = text.replace(path, f"{self.place}{path}")
        self.calls.write_text("")
        environment = {"PATH": f"{self.place}/bin:/usr/bin:/bin"}
        command = ["/bin/sh", "-c", text, script, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.calls.read_text().splitlines(), done.stderr

    def boot(self):
        (self.place / "run/systemd/system").mkdir(parents=True)

    def test_an_installation_enables_and_starts(self):
        self.boot()
        for package, (unit, _) in SERVICES.items():
            calls, _ = self.carry_out(package, "postinst", "configure", "")
            self.assertIn(f"deb-systemd-helper enable {unit}", calls)
            self.assertEqual(calls[-2:], ["systemctl --system daemon-reload", f"deb-systemd-invoke start {unit}"])

    def test_limits_of_the_kernel_are_raised_and_never_lowered(self):
        self.boot()
        limit, settings = self.place / "proc/sys/fs/pipe-max-size", self.place / "usr/lib/sysctl.d/50-forebay-node.conf"
        for path in (limit, settings):
            path.parent.mkdir(parents=True)
        settings.write_text((self.trees["forebay-node"] / "usr/lib/sysctl.d/50-forebay-node.conf").read_text())
        for before, after in (("1048576", "2097152"), ("2097152", "2097152"), ("8388608", "8388608")):
            limit.write_text(f"{before}\n")
            for package in SERVICES:
                self.carry_out(package, "postinst", "configure", "")
            self.assertEqual(limit.read_text().strip(), after)

    def test_a_container_that_may_not_raise_limits_is_no_failure(self):
        self.boot()
        limit, settings = self.place / "proc/sys/fs/pipe-max-size", self.place / "usr/lib/sysctl.d/50-forebay-node.conf"
        for path in (limit, settings):
            path.parent.mkdir(parents=True)
        settings.write_text("fs.pipe-max-size = 2097152\n")
        # A directory stands for what cannot be written, for root too.
        limit.mkdir()
        calls, _ = self.carry_out("forebay-node", "postinst", "configure", "")
        self.assertEqual(calls[-1], "deb-systemd-invoke start forebay-agent.service")

    def test_an_upgrade_starts_again_and_stops_nothing_before(self):
        self.boot()
        for package, (unit, _) in SERVICES.items():
            self.assertEqual(self.carry_out(package, "prerm", "upgrade", "0.2")[0], [])
            calls, _ = self.carry_out(package, "postinst", "configure", "0.1")
            self.assertEqual(calls[-1], f"deb-systemd-invoke restart {unit}")

    def test_what_an_administrator_disabled_stays_disabled(self):
        (self.place / "disabled").touch()
        for package, (unit, _) in SERVICES.items():
            calls, _ = self.carry_out(package, "postinst", "configure", "0.1")
            self.assertEqual([call for call in calls if " enable " in call], [])
            self.assertIn(f"deb-systemd-helper update-state {unit}", calls)

    def test_where_systemd_does_not_run_nothing_is_started(self):
        for package in SERVICES:
            for script, words in (("postinst", ["configure", ""]), ("prerm", ["remove"]), ("postrm", ["remove"])):
                calls, _ = self.carry_out(package, script, *words)
                self.assertEqual([call for call in calls if not call.startswith("deb-systemd-helper")], [])

    def test_a_removal_stops_and_leaves_all_state(self):
        self.boot()
        for package, (unit, state) in SERVICES.items():
            directory = self.place / state[1:]
            directory.mkdir(parents=True)
            self.assertEqual(self.carry_out(package, "prerm", "remove")[0], [f"deb-systemd-invoke stop {unit}"])
            self.assertEqual(self.carry_out(package, "postrm", "remove")[0], ["systemctl --system daemon-reload"])
            self.assertTrue(directory.is_dir())

    def test_a_purge_takes_empty_directories(self):
        (self.place / "etc/forebay").mkdir(parents=True)
        for package, (unit, state) in SERVICES.items():
            (self.place / state[1:]).mkdir(parents=True)
            calls, said = self.carry_out(package, "postrm", "purge")
            self.assertEqual((calls, said), ([f"deb-systemd-helper purge {unit}"], ""))
        self.assertFalse((self.place / "etc/forebay").exists())
        self.assertFalse((self.place / "var/lib/forebay").exists())

    def test_a_purge_keeps_data_and_says_where(self):
        mine = self.place / "etc/forebay/client.toml"
        mine.parent.mkdir(parents=True)
        mine.touch()
        for package, (_, state) in SERVICES.items():
            kept = self.place / state[1:] / "deep/data"
            kept.parent.mkdir(parents=True)
            kept.write_text("precious")
            _, said = self.carry_out(package, "postrm", "purge")
            self.assertEqual(kept.read_text(), "precious")
            self.assertIn(f"{package}: {self.place}{state} is kept", said)
        self.assertTrue(mine.exists())

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not there: make setup")
    def test_shellcheck_has_nothing_to_say(self):
        scripts = [self.script(package, script) for package in SERVICES for script in SCRIPTS]
        run("shellcheck", "--severity=style", *scripts, ROOT / "scripts/deb.sh")


class Units(Packages):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not there")
    def test_systemd_understands_every_line(self):
        for package, (name, _) in SERVICES.items():
            with tempfile.TemporaryDirectory() as place:
                copy = Path(place) / name
                # The program has to exist for this.
                copy.write_text(self.unit(package).read_text().replace("/usr/bin/forebay", "/bin/true"))
                done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
                complaints = [line for line in (done.stdout + done.stderr).splitlines() if name in line]
                self.assertEqual(complaints, [])
                copy.write_text(copy.read_text() + "\n[Service]\nNoSuchKey=1\n")
                done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
                self.assertIn("NoSuchKey", done.stdout + done.stderr)

    def test_units_name_what_the_packages_have(self):
        for package, (_, state) in SERVICES.items():
            program, role, option, configuration = re.search(r"^ExecStart=(.*)$", self.unit(package).read_text(), re.M)[1].split()
            self.assertIn(f".{program}", self.listing("forebay-client"))
            self.assertIn(f".{configuration}", self.listing(package))
            self.assertEqual((option, Path(configuration).stem), ("--config", role))
            self.assertIn(f"StateDirectory={state.removeprefix('/var/lib/')}\n", self.unit(package).read_text())

    def test_no_power_is_left_to_a_unit_that_it_does_not_need(self):
        for package, most in {"forebay-controller": 0, "forebay-node": 10}.items():
            text = self.unit(package).read_text()
            bound = re.search(r"^CapabilityBoundingSet=(.*)$", text, re.M)
            self.assertIsNotNone(bound)
            self.assertLessEqual(len(bound[1].split()), most)
            self.assertIn("\nNoNewPrivileges=yes\n", text)

    def test_mounts_of_the_agent_are_seen_by_jobs_and_outlive_it(self):
        text = self.unit("forebay-node").read_text()
        self.assertIsNone(OWN_NAMESPACE.search(text))
        self.assertIsNotNone(OWN_NAMESPACE.search(self.unit("forebay-controller").read_text()))
        self.assertIn("\nKillMode=process\n", text)
        self.assertIn("\nOOMPolicy=continue\n", text)

if __name__ == "__main__":
    unittest.main()
