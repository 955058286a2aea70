//! The body of each operation, field by field in the order of the wire. Pure.

use super::operation::*;
use crate::abi::opcode;
use crate::attr::Time;
use crate::cursor::{Cursor, Taken, TooShort};
use crate::flags::{Features, IoctlFlags, WriteFlags};

const FSYNC_DATA_ONLY: u32 = 1 << 0;
const GETATTR_HANDLE: u32 = 1 << 0;
const READ_LOCK_OWNER: u32 = 1 << 1;
const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
const LOCK_FLOCK: u32 = 1 << 0;
const POLL_NOTIFY: u32 = 1 << 0;

/// Decodes the body of an operation.
pub(super) fn operation<'a>(number: u32, mut body: Cursor<'a>, agreed: Features) -> Taken<Operation<'a>> {
    use Operation as Op;
    let body = &mut body;
    Ok(match number {
        opcode::LOOKUP => Op::Lookup { name: body.name()? },
        opcode::FORGET => Op::Forget { count: body.u64()? },
        opcode::BATCH_FORGET => Op::BatchForget(forgets(body)?),
        opcode::GETATTR => Op::Getattr(getattr(body)?),
        opcode::SETATTR => Op::Setattr(setattr(body)?),
        opcode::STATX => Op::Statx(statx(body)?),
        opcode::READLINK => Op::Readlink,
        opcode::SYMLINK => Op::Symlink { name: body.name()?, target: body.name()? },
        opcode::MKNOD => Op::Mknod(mknod(body)?),
        opcode::MKDIR => Op::Mkdir(mkdir(body)?),
        opcode::UNLINK => Op::Unlink { name: body.name()? },
        opcode::RMDIR => Op::Rmdir { name: body.name()? },
        opcode::RENAME => Op::Rename(rename(body, false)?),
        opcode::RENAME2 => Op::Rename(rename(body, true)?),
        opcode::LINK => Op::Link { from: body.u64()?, name: body.name()? },
        opcode::OPEN => Op::Open(open(body)?),
        opcode::CREATE => Op::Create(create(body)?),
        opcode::TMPFILE => Op::Tmpfile(create(body)?),
        opcode::READ => Op::Read(read(body)?),
        opcode::WRITE => Op::Write(write(body)?),
        opcode::FLUSH => flush(body)?,
        opcode::RELEASE => Op::Release(release(body)?),
        opcode::FSYNC => fsync(body).map(|(handle, data_only)| Op::Fsync { handle, data_only })?,
        opcode::OPENDIR => Op::Opendir(open(body)?),
        opcode::READDIR => Op::Readdir(readdir(body)?),
        opcode::READDIRPLUS => Op::Readdirplus(readdir(body)?),
        opcode::RELEASEDIR => Op::Releasedir(release(body)?),
        opcode::FSYNCDIR => fsync(body).map(|(handle, data_only)| Op::Fsyncdir { handle, data_only })?,
        opcode::SYNCFS => Op::Syncfs,
        opcode::STATFS => Op::Statfs,
        opcode::SETXATTR => Op::Setxattr(setxattr(body, agreed)?),
        opcode::GETXATTR => getxattr(body)?,
        opcode::LISTXATTR => Op::Listxattr { size: body.u32()? },
        opcode::REMOVEXATTR => Op::Removexattr { name: body.name()? },
        opcode::ACCESS => Op::Access { mask: body.u32()? },
        opcode::GETLK => Op::Getlk(lock(body, false)?),
        opcode::SETLK => Op::Setlk(lock(body, false)?),
        opcode::SETLKW => Op::Setlk(lock(body, true)?),
        opcode::BMAP => Op::Bmap { block: body.u64()?, block_size: body.u32()? },
        opcode::IOCTL => Op::Ioctl(ioctl(body)?),
        opcode::POLL => Op::Poll(poll(body)?),
        opcode::FALLOCATE => Op::Fallocate(fallocate(body)?),
        opcode::LSEEK => Op::Lseek(lseek(body)?),
        opcode::COPY_FILE_RANGE => Op::CopyFileRange(copy(body, false)?),
        opcode::COPY_FILE_RANGE_64 => Op::CopyFileRange(copy(body, true)?),
        opcode::INTERRUPT => Op::Interrupt { unique: body.u64()? },
        opcode::DESTROY => Op::Destroy,
        opcode => Op::Unknown { opcode },
    })
}

fn forgets<'a>(body: &mut Cursor<'a>) -> Taken<Forgets<'a>> {
    let count = body.u32()? as usize;
    body.skip(4)?;
    let bytes = count.checked_mul(Forgets::ONE).ok_or(TooShort)?;
    Ok(Forgets::new(body.bytes(bytes)?))
}

fn getattr(body: &mut Cursor<'_>) -> Taken<Getattr> {
    let flags = body.u32()?;
    body.skip(4)?;
    let handle = body.u64()?;
    Ok(Getattr { handle: (flags & GETATTR_HANDLE != 0).then_some(handle) })
}

fn statx(body: &mut Cursor<'_>) -> Taken<Statx> {
    let Getattr { handle } = getattr(body)?;
    Ok(Statx { handle, flags: body.u32()?, mask: body.u32()? })
}

fn setattr(body: &mut Cursor<'_>) -> Taken<Setattr> {
    let valid = body.u32()?;
    body.skip(4)?;
    let (handle, size, owner) = (body.u64()?, body.u64()?, body.u64()?);
    let secs = [body.i64()?, body.i64()?, body.i64()?];
    let nanos = [body.u32()?, body.u32()?, body.u32()?];
    let mode = body.u32()?;
    body.skip(4)?;
    let (uid, gid) = (body.u32()?, body.u32()?);
    let has = |bit: u32| valid & (1 << bit) != 0;
    let time = |which: usize| Time { secs: secs[which], nanos: nanos[which] };
    let new_time = |which, set, now| match (has(set), has(now)) {
        (_, true) => Some(NewTime::Now),
        (true, false) => Some(NewTime::At(time(which))),
        (false, false) => None,
    };
    Ok(Setattr {
        handle: has(6).then_some(handle),
        mode: has(0).then_some(mode),
        uid: has(1).then_some(uid),
        gid: has(2).then_some(gid),
        size: has(3).then_some(size),
        atime: new_time(0, 4, 7),
        mtime: new_time(1, 5, 8),
        ctime: has(10).then(|| time(2)),
        lock_owner: has(9).then_some(owner),
        kill_suid_sgid: has(11),
    })
}

fn mknod<'a>(body: &mut Cursor<'a>) -> Taken<MakeNode<'a>> {
    let (mode, rdev, umask) = (body.u32()?, body.u32()?, body.u32()?);
    body.skip(4)?;
    Ok(MakeNode { name: body.name()?, mode, umask, rdev })
}

fn mkdir<'a>(body: &mut Cursor<'a>) -> Taken<MakeNode<'a>> {
    let (mode, umask) = (body.u32()?, body.u32()?);
    Ok(MakeNode { name: body.name()?, mode, umask, rdev: 0 })
}

fn rename<'a>(body: &mut Cursor<'a>, with_flags: bool) -> Taken<Rename<'a>> {
    let new_parent = body.u64()?;
    let mut flags = 0;
    if with_flags {
        flags = body.u32()?;
        body.skip(4)?;
    }
    Ok(Rename { name: body.name()?, new_parent, new_name: body.name()?, flags })
}

fn open(body: &mut Cursor<'_>) -> Taken<Open> {
    Ok(Open::new(body.i32()?, body.u32()?))
}

fn create<'a>(body: &mut Cursor<'a>) -> Taken<Create<'a>> {
    let (flags, mode, umask, open_flags) = (body.i32()?, body.u32()?, body.u32()?, body.u32()?);
    Ok(Create { name: body.name()?, mode, umask, open: Open::new(flags, open_flags) })
}

fn read(body: &mut Cursor<'_>) -> Taken<Read> {
    let (handle, offset, size) = (body.u64()?, body.u64()?, body.u32()?);
    let (read_flags, owner, flags) = (body.u32()?, body.u64()?, body.i32()?);
    let lock_owner = (read_flags & READ_LOCK_OWNER != 0).then_some(owner);
    Ok(Read { handle, offset, size, flags, lock_owner })
}

fn readdir(body: &mut Cursor<'_>) -> Taken<Readdir> {
    let Read { handle, offset, size, .. } = read(body)?;
    Ok(Readdir { handle, offset, size })
}

fn write<'a>(body: &mut Cursor<'a>) -> Taken<Write<'a>> {
    let (handle, offset, size) = (body.u64()?, body.u64()?, body.u32()?);
    let how = WriteFlags::from_bits_retain(body.u32()?);
    let (owner, flags) = (body.u64()?, body.i32()?);
    body.skip(4)?;
    let lock_owner = how.contains(WriteFlags::LOCK_OWNER).then_some(owner);
    Ok(Write { handle, offset, data: body.bytes(size as usize)?, how, flags, lock_owner })
}

fn flush<'a>(body: &mut Cursor<'_>) -> Taken<Operation<'a>> {
    let handle = body.u64()?;
    body.skip(8)?;
    Ok(Operation::Flush { handle, lock_owner: body.u64()? })
}

fn release(body: &mut Cursor<'_>) -> Taken<Release> {
    let (handle, flags, release_flags, owner) = (body.u64()?, body.i32()?, body.u32()?, body.u64()?);
    Ok(Release { handle, flags, unlock: (release_flags & RELEASE_FLOCK_UNLOCK != 0).then_some(owner) })
}

fn fsync(body: &mut Cursor<'_>) -> Taken<(u64, bool)> {
    Ok((body.u64()?, body.u32()? & FSYNC_DATA_ONLY != 0))
}

fn setxattr<'a>(body: &mut Cursor<'a>, agreed: Features) -> Taken<Setxattr<'a>> {
    let (size, flags) = (body.u32()?, body.i32()?);
    if agreed.contains(Features::SETXATTR_EXT) {
        body.skip(8)?;
    }
    let name = body.name()?;
    Ok(Setxattr { name, value: body.bytes(size as usize)?, flags })
}

fn getxattr<'a>(body: &mut Cursor<'a>) -> Taken<Operation<'a>> {
    let size = body.u32()?;
    body.skip(4)?;
    Ok(Operation::Getxattr { name: body.name()?, size })
}

fn lock(body: &mut Cursor<'_>, waits: bool) -> Taken<Lock> {
    let (handle, owner) = (body.u64()?, body.u64()?);
    let (start, end, kind, pid) = (body.u64()?, body.u64()?, body.u32()?, body.u32()?);
    let flock = body.u32()? & LOCK_FLOCK != 0;
    let range = LockRange { start, end, kind: LockKind::from_wire(kind), pid };
    Ok(Lock { handle, owner, range, flock, waits })
}

fn ioctl<'a>(body: &mut Cursor<'a>) -> Taken<Ioctl<'a>> {
    let (handle, flags, command) = (body.u64()?, IoctlFlags::from_bits_retain(body.u32()?), body.u32()?);
    let (argument, input_size, output_size) = (body.u64()?, body.u32()?, body.u32()?);
    Ok(Ioctl { handle, flags, command, argument, input: body.bytes(input_size as usize)?, output_size })
}

fn poll(body: &mut Cursor<'_>) -> Taken<Poll> {
    let (handle, kernel_handle, flags) = (body.u64()?, body.u64()?, body.u32()?);
    Ok(Poll { handle, kernel_handle, wants_notification: flags & POLL_NOTIFY != 0, events: body.u32()? })
}

fn fallocate(body: &mut Cursor<'_>) -> Taken<Fallocate> {
    Ok(Fallocate { handle: body.u64()?, offset: body.u64()?, length: body.u64()?, mode: body.u32()? })
}

fn lseek(body: &mut Cursor<'_>) -> Taken<Seek> {
    Ok(Seek { handle: body.u64()?, offset: body.i64()?, whence: body.i32()? })
}

fn copy(body: &mut Cursor<'_>, wide: bool) -> Taken<Copy> {
    let (handle, offset, to_node, to_handle) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let (to_offset, length, flags) = (body.u64()?, body.u64()?, body.u64()?);
    Ok(Copy { handle, offset, to_node, to_handle, to_offset, length, flags, wide })
}

impl LockKind {
    pub(crate) fn from_wire(number: u32) -> LockKind {
        match i32::try_from(number) {
            Ok(libc::F_RDLCK) => LockKind::Shared,
            Ok(libc::F_WRLCK) => LockKind::Exclusive,
            Ok(libc::F_UNLCK) => LockKind::Unlock,
            _ => LockKind::Other(number),
        }
    }

    pub(crate) fn to_wire(self) -> u32 {
        match self {
            LockKind::Shared => libc::F_RDLCK as u32,
            LockKind::Exclusive => libc::F_WRLCK as u32,
            LockKind::Unlock => libc::F_UNLCK as u32,
            LockKind::Other(number) => number,
        }
    }
}
