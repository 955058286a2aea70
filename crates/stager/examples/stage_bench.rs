//! Staging against `cp`, on one file system or between two, in one run.
//!
//! ```text
//! stage_bench [--files N] [--file-bytes N] [--large-bytes N] [--rounds N] [SOURCE-DIR TARGET-DIR]
//! ```
//! Without directories both lie in a temporary directory. Rounds are interleaved and alternate in order, after one that is not
//! counted; the ratio is the median of `cp` over the median of the stage. "durable" ends both with everything on disk: `cp`
//! with `sync -f`, the stage by its own rules. The processor time of both (of this process and of its children, in ticks of
//! 10 ms) is shown as well: on a machine that has other work it says more than the time.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use forebay_stager::{
    CancelToken, Direction, ListPair, PosixTree, StageOptions, StageRequest, Verify, What, stage,
};

struct Settings {
    files: usize,
    file_bytes: usize,
    large_bytes: usize,
    rounds: usize,
    workers: Option<usize>,
    directories: Vec<PathBuf>,
}

fn settings() -> Result<Settings, Box<dyn Error>> {
    let mut settings = Settings {
        files: 10_000,
        file_bytes: 4096,
        large_bytes: 2 << 30,
        rounds: 5,
        workers: None,
        directories: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            words
                .next()
                .ok_or(format!("{word} needs a number"))?
                .parse::<usize>()
                .map_err(Box::<dyn Error>::from)
        };
        match word.as_str() {
            "--files" => settings.files = number()?,
            "--file-bytes" => settings.file_bytes = number()?,
            "--large-bytes" => settings.large_bytes = number()?,
            "--rounds" => settings.rounds = number()?,
            "--workers" => settings.workers = Some(number()?),
            option if option.starts_with("--") => return Err(format!("unknown option {option}").into()),
            _ => settings.directories.push(PathBuf::from(word)),
        }
    }
    Ok(settings)
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = settings()?;
    let temporary = tempfile::tempdir()?;
    let (from, to) = match settings.directories.as_slice() {
        [] => (temporary.path().to_path_buf(), temporary.path().to_path_buf()),
        [from, to] => (from.clone(), to.clone()),
        _ => return Err("give no directory or two".into()),
    };
    let source = tempfile::tempdir_in(from)?;
    let target = tempfile::tempdir_in(to)?;
    println!(
        "{:<48} {:>8} {:>8} {:>6} {:>9} {:>8}",
        "case (medians, seconds)", "stage", "cp", "ratio", "stage cpu", "cp cpu"
    );
    small(&settings, source.path(), target.path())?;
    large(&settings, source.path(), target.path())?;
    Ok(())
}

fn content(length: usize, seed: usize) -> Vec<u8> {
    let mut state = seed as u64 + 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state >> 16).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn small(settings: &Settings, source: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let tree = source.join("small");
    fs::create_dir(&tree)?;
    for number in 0..settings.files {
        fs::write(tree.join(format!("spectrum-{number:05}.fits")), content(settings.file_bytes, number))?;
    }
    sync(source)?;
    let name = format!("{} files of {} bytes", settings.files, settings.file_bytes);
    let copy = |to: &Path| run(Command::new("cp").arg("-r").arg(&tree).arg(to));
    compare(settings, &name, target, true, &tree, &copy)?;
    Ok(())
}

fn large(settings: &Settings, source: &Path, target: &Path) -> Result<(), Box<dyn Error>> {
    let file = source.join("large");
    let piece = content(8 << 20, 1);
    let mut out = fs::File::create(&file)?;
    let mut left = settings.large_bytes;
    while left > 0 {
        let length = left.min(piece.len());
        std::io::Write::write_all(&mut out, &piece[..length])?;
        left -= length;
    }
    out.sync_all()?;
    let name = format!("one file of {} MiB", settings.large_bytes >> 20);
    let copy = |to: &Path| run(Command::new("cp").arg(&file).arg(to));
    compare(settings, &name, target, false, &file, &copy)
}

fn sync(path: &Path) -> Result<(), Box<dyn Error>> {
    run(Command::new("sync").arg("-f").arg(path))
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

type Copy<'c> = &'c dyn Fn(&Path) -> Result<(), Box<dyn Error>>;

fn compare(
    settings: &Settings,
    name: &str,
    target: &Path,
    directory: bool,
    source: &Path,
    copy: Copy<'_>,
) -> Result<(), Box<dyn Error>> {
    for (durable, direction) in [(false, Direction::In), (true, Direction::In), (true, Direction::Out)] {
        for verify in [Verify::Checksum, Verify::Off] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for round in 0..=settings.rounds {
                let stage_it =
                    |to: &Path| stage_once(settings, source, to, directory, direction, durable, verify);
                let copy_it = |to: &Path| {
                    copy(to)?;
                    if durable { sync(target) } else { Ok(()) }
                };
                let (a, b) = if round % 2 == 0 {
                    let a = timed(target, &stage_it)?;
                    (a, timed(target, &copy_it)?)
                } else {
                    let b = timed(target, &copy_it)?;
                    (timed(target, &stage_it)?, b)
                };
                if round > 0 {
                    ours.push(a);
                    theirs.push(b);
                }
            }
            let [ours, our_cpu] = medians(&ours);
            let [theirs, their_cpu] = medians(&theirs);
            let kind = if durable { "durable" } else { "cached" };
            let label = format!("{name}, {direction:?} {kind} {verify:?}");
            let ratio = theirs / ours;
            println!("{label:<48} {ours:>8.3} {theirs:>8.3} {ratio:>6.2} {our_cpu:>9.2} {their_cpu:>8.2}");
        }
    }
    Ok(())
}

/// Seconds on the clock and of the processors.
fn timed(target: &Path, work: Copy<'_>) -> Result<[f64; 2], Box<dyn Error>> {
    sync(target)?;
    let to = target.join("copy");
    let (started, before) = (Instant::now(), processor_seconds()?);
    work(&to)?;
    let taken = [started.elapsed().as_secs_f64(), processor_seconds()? - before];
    if to.is_dir() {
        fs::remove_dir_all(&to)?
    } else {
        fs::remove_file(&to)?
    }
    Ok(taken)
}

/// User and system time of this process and its ended children: fields 14 to 17 of `/proc/self/stat`, in ticks.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let after_name = text.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
    let ticks =
        after_name.split_whitespace().skip(11).take(4).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn stage_once(
    settings: &Settings,
    source: &Path,
    target: &Path,
    directory: bool,
    direction: Direction,
    durable: bool,
    verify: Verify,
) -> Result<(), Box<dyn Error>> {
    let tree = PosixTree::everywhere()?;
    let relative = |path: &Path| path.strip_prefix("/").map(Path::to_path_buf);
    let pair = ListPair { source: relative(source)?, destination: relative(target)? };
    let what = if directory { What::Directory(pair) } else { What::File(pair) };
    let request = StageRequest { direction, source: &tree, destination: &tree, what };
    let options =
        StageOptions { durable: Some(durable), verify, workers: settings.workers, ..StageOptions::default() };
    stage(&request, &options, &|_| {}, &CancelToken::new())?;
    Ok(())
}

fn medians(rounds: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    })
}
