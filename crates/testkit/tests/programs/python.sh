# The file modules of Python's library.
/usr/bin/python3 - <<'PROGRAM'
import compileall, fcntl, importlib, mmap, os, pathlib, random, shutil, subprocess, sys, tarfile, tempfile, zipfile

base = pathlib.Path.cwd()
package = base / "package"
package.mkdir()
for number in range(30):
    (package / f"m{number}.py").write_text(f"VALUE = {number}\n")
(package / "__init__.py").write_text("")
assert compileall.compile_dir(package, quiet=1)
assert len(list((package / "__pycache__").iterdir())) == 31
sys.path.insert(0, str(base))
assert importlib.import_module("package.m7").VALUE == 7

tree = base / "tree"
for number in range(40):
    directory = tree / f"d{number % 7}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"f{number}").write_bytes(random.randbytes(number * 3000))
(tree / "link").symlink_to("d1")
shutil.copytree(tree, base / "copy", symlinks=True)
def content(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and not p.is_symlink()}
assert content(tree) == content(base / "copy")
shutil.move(base / "copy", base / "moved")
shutil.make_archive("archive", "zip", tree)
shutil.unpack_archive("archive.zip", "unpacked")
unpacked = {n: d for n, d in content(base / "unpacked").items() if not n.startswith("link")}
assert unpacked == content(tree)
with zipfile.ZipFile("big.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(20):
        archive.writestr(f"{number}", random.randbytes(100_000))
assert zipfile.ZipFile("big.zip").testzip() is None
shutil.rmtree(base / "moved")
assert not (base / "moved").exists()

with tempfile.TemporaryDirectory(dir=base) as directory:
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(b"x" * 100_000)
        file.flush()
        assert os.path.getsize(file.name) == 100_000
with tempfile.TemporaryFile(dir=base) as file:
    file.write(b"gone")
    file.seek(0)
    assert file.read() == b"gone"
with tempfile.SpooledTemporaryFile(max_size=10, dir=base) as file:
    file.write(b"spooled beyond its size")

with open("mapped", "w+b") as file:
    file.truncate(1_000_000)
    with mmap.mmap(file.fileno(), 0) as memory:
        memory[500_000:500_005] = b"hello"
        memory.flush()
        assert memory.find(b"hello") == 500_000
    file.seek(500_000)
    assert file.read(5) == b"hello"

with open("locked", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    code = "import fcntl,sys; f=open('locked','r+')\ntry: fcntl.lockf(f, fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError: sys.exit(7)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7

for text in ("line\n" * 10_000, "ünï\r\n" * 5000):
    with open("text", "w", newline="") as file:
        file.write(text)
    assert open("text", newline="").read() == text
fd = os.open("os", os.O_RDWR | os.O_CREAT)
os.pwritev(fd, [b"a" * 70_000, b"b" * 70_000], 10)
assert os.pread(fd, 3, 70_009) == b"abb"
os.posix_fallocate(fd, 0, 500_000)
assert os.fstat(fd).st_size == 500_000
os.setxattr("os", "user.k", b"v")
assert os.listxattr("os") == ["user.k"]
assert sorted(e.name for e in os.scandir(tree)) == sorted(os.listdir(tree))
PROGRAM
