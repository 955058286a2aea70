//! Operations on the content of open files.

use super::Volume;
use crate::file::{Body, Striped};
use crate::handles::{Handle, OpenFile};
use forebay_wire::{FallocateMode, FsError, Result, SeekWhat, Sharing, Stub, Window};

/// Offsets are below this, as for every Linux file.
const OFFSET_MAX: u64 = i64::MAX as u64;
/// Buffer for copies that the servers cannot do by themselves, in bytes.
const COPY_BUFFER: usize = 1 << 20;
/// Bytes copied by one call at most, so that a caller can interrupt.
const COPY_MAX: u64 = 64 << 20;

impl Volume {
    /// Reads from `offset`; short only at the end of the file, 0 at or beyond it. Holes are zeros.
    pub fn read(&self, handle: Handle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let open = self.handles.file(handle)?.readable()?;
        if offset > OFFSET_MAX {
            return Err(FsError::InvalidArgument);
        }
        let room = usize::try_from(OFFSET_MAX - offset).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(room);
        let done = self.read_content(&open, offset, &mut buffer[..wanted])?;
        self.read.count(offset, done);
        Ok(done)
    }

    /// Has a window take `length` bytes from `offset` on, or up to the end of the file, and hand them over: no copy is made
    /// of what lies in local files. `None`: nothing was handed over, and the range is to be read. Nobody who writes or
    /// changes the file is let in meanwhile, so what is shown is as whole as what is read.
    pub fn show(
        &self,
        handle: Handle,
        offset: u64,
        length: usize,
        window: &mut dyn Window,
    ) -> Result<Option<usize>> {
        let open = self.handles.file(handle)?.readable()?;
        let (stub, body) = (&open.stub, open.file.together());
        let Body::Striped(striped) = &*body else { return Ok(None) };
        let end = offset.checked_add(length as u64).filter(|end| *end <= OFFSET_MAX);
        let end = end.map(|end| stub.known_size().map_or(end, |size| end.min(size)));
        let Some(range) = end.map(|end| offset..end).filter(|range| !range.is_empty()) else {
            return Ok(None);
        };
        let done = (range.end - range.start) as usize;
        let mut is_shown = false;
        stub.undisturbed(&mut || is_shown = striped.show(range.clone(), window));
        if !is_shown {
            return Ok(None);
        }
        self.read.count(offset, done);
        stub.was_read()?;
        Ok(Some(done))
    }

    fn read_content(&self, open: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let stub = &open.stub;
        match &*open.file.together() {
            Body::Inline => stub.read(offset, buffer),
            Body::Striped(striped) => {
                let done = read_striped(stub.as_ref(), striped, offset, buffer)?;
                if done > 0 {
                    stub.was_read()?;
                }
                Ok(done)
            }
        }
    }

    /// Appends, wherever the end is by now, and returns where. Short when space runs out; an error means that nothing
    /// was written. Appends of several who write at the same time never overlap.
    pub fn append(&self, handle: Handle, data: &[u8], kill_suid_sgid: bool) -> Result<(u64, usize)> {
        let open = self.handles.file(handle)?.writable()?;
        if matches!(*open.file.together(), Body::Inline) {
            if kill_suid_sgid {
                open.stub.drop_suid_sgid()?;
            }
            let (offset, done) = open.stub.append(data)?;
            self.written.count(offset, done);
            return Ok((offset, done));
        }
        let offset = open.stub.reserve(data.len() as u64)?;
        let written = self.write(handle, offset, data, kill_suid_sgid);
        let done = written.unwrap_or(0);
        // Of who could not be asked nobody knows what he still writes.
        if done < data.len() && written != Err(FsError::Unreachable) {
            // If it cannot be given up the next append leaves a hole, and this one is answered as it is all the same.
            let _ = open.stub.give_up(offset + done as u64..offset + data.len() as u64);
        }
        Ok((offset, written?))
    }

    /// Writes at `offset`, whatever the open flags say of appending. Short when space runs out or the file reaches its
    /// largest size; an error means that nothing was written.
    pub fn write(&self, handle: Handle, offset: u64, data: &[u8], kill_suid_sgid: bool) -> Result<usize> {
        let open = self.handles.file(handle)?.writable()?;
        if data.is_empty() {
            return Ok(0);
        }
        let room = self.max_file_size.min(OFFSET_MAX).saturating_sub(offset);
        let wanted = usize::try_from(room).unwrap_or(usize::MAX).min(data.len());
        if wanted == 0 {
            open.stub.was_too_long(offset.saturating_add(data.len() as u64));
            return Err(FsError::FileTooLarge);
        }
        if kill_suid_sgid {
            open.stub.drop_suid_sgid()?;
        }
        let mut done = write_content(&open, offset, &data[..wanted]);
        let is_short = done.map_or_else(|error| error == FsError::NoSpace, |done| done < wanted);
        if is_short && self.metadata.give_back() {
            let before = done.unwrap_or(0);
            let more = write_content(&open, offset + before as u64, &data[before..wanted]);
            done = more.map(|more| before + more).or(done);
        }
        let done = done?;
        self.written.count(offset, done);
        Ok(done)
    }

    /// Called for every close of a descriptor. Nothing is held back, so there is nothing to do.
    pub fn flush(&self, handle: Handle) -> Result<()> {
        self.handles.file(handle).map(|_| ())
    }

    /// The content and, unless `data_only`, the attributes are on disk afterwards. Length and allocation always are.
    pub fn fsync(&self, handle: Handle, data_only: bool) -> Result<()> {
        let open = self.handles.file(handle)?;
        match &*open.file.together() {
            Body::Inline => open.stub.sync(data_only).map(drop),
            Body::Striped(striped) => striped.sync(&*open.stub, data_only),
        }
    }

    /// Allocates, punches or zeroes a range; see [`FallocateMode`].
    pub fn fallocate(&self, handle: Handle, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        let open = self.handles.file(handle)?.writable()?;
        let end = offset.checked_add(length).filter(|end| *end <= OFFSET_MAX).ok_or(FsError::FileTooLarge)?;
        if length == 0 {
            return Err(FsError::InvalidArgument);
        }
        if end > self.max_file_size && !mode.contains(FallocateMode::KEEP_SIZE) {
            open.stub.was_too_long(end);
            return Err(FsError::FileTooLarge);
        }
        let is_shared = self.sharing() == Sharing::Shared;
        let done = fallocate_content(&open, offset..end, mode, is_shared);
        if done == Err(FsError::NoSpace) && self.metadata.give_back() {
            return fallocate_content(&open, offset..end, mode, is_shared);
        }
        done
    }

    /// The first stored or not stored byte at or after `offset`; the end of the file counts as not stored. `NoData` at
    /// or beyond the end, and when no data follows.
    pub fn seek(&self, handle: Handle, offset: u64, what: SeekWhat) -> Result<u64> {
        let open = self.handles.file(handle)?;
        let found = match &*open.file.together() {
            Body::Inline if offset > OFFSET_MAX => None,
            Body::Inline => open.stub.seek(offset, what)?,
            Body::Striped(striped) => {
                let size = open.stub.size()?;
                if offset < size { striped.seek(offset, size, what)? } else { None }
            }
        };
        found.ok_or(FsError::NoData)
    }

    /// Copies within the volume, by the local file system's means where both files are inline. Returns how much was
    /// copied, which may be less than asked for; 0 at the end of the source. Overlapping ranges of one file are refused.
    pub fn copy_range(
        &self,
        from: Handle,
        from_offset: u64,
        to: Handle,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let source = self.handles.file(from)?.readable()?;
        let target = self.handles.file(to)?.writable()?;
        let left = source.stub.size()?.saturating_sub(from_offset);
        let room = self.max_file_size.min(OFFSET_MAX).saturating_sub(to_offset);
        let length = length.min(left);
        if length > 0 && room == 0 {
            return Err(FsError::FileTooLarge);
        }
        let length = length.min(room);
        if length == 0 {
            return Ok(0);
        }
        if source.ino == target.ino && from_offset.abs_diff(to_offset) < length {
            return Err(FsError::InvalidArgument);
        }
        if let Some(copied) = self.copy_inline(&source, from_offset, &target, to_offset, length)? {
            return Ok(copied);
        }
        self.copy_through_buffer((from, from_offset), (to, to_offset), length.min(COPY_MAX))
    }

    fn copy_inline(
        &self,
        source: &OpenFile,
        from_offset: u64,
        target: &OpenFile,
        to_offset: u64,
        length: u64,
    ) -> Result<Option<u64>> {
        if !matches!(*source.file.together(), Body::Inline) {
            return Ok(None);
        }
        // One gate only: two copies in opposite directions must not wait for each other. A source that is given a
        // layout meanwhile was empty and refuses.
        let Body::Inline = &*target.file.together() else { return Ok(None) };
        let copied = source.stub.copy_to(from_offset, &*target.stub, to_offset, length)?;
        if let Some(copied) = copied {
            self.read.count(from_offset, copied as usize);
            self.written.count(to_offset, copied as usize);
        }
        Ok(copied)
    }

    fn copy_through_buffer(&self, from: (Handle, u64), to: (Handle, u64), length: u64) -> Result<u64> {
        let mut buffer = vec![0; COPY_BUFFER.min(length as usize)];
        let mut done = 0;
        while done < length {
            let wanted = buffer.len().min((length - done) as usize);
            let copied = self
                .read(from.0, from.1 + done, &mut buffer[..wanted])
                .and_then(|read| Ok((read, self.write(to.0, to.1 + done, &buffer[..read], false)?)));
            match copied {
                Ok((read, written)) => {
                    done += written as u64;
                    if written < wanted || read < wanted {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

/// Reads up to the end of a striped file. Where the length is not known here it is asked for only when the substripe
/// files do not reach as far as the range: the range may then lie in a hole or beyond the end. What certainly lies beyond is not
/// looked for.
fn read_striped(stub: &dyn Stub, striped: &Striped, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let within =
        |size: u64, most: usize| usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(most);
    if let Some(size) = stub.known_size() {
        let wanted = within(size, buffer.len());
        if wanted > 0 {
            striped.read(offset, &mut buffer[..wanted])?;
        }
        return Ok(wanted);
    }
    let likely = stub.known_end().map_or(buffer.len(), |end| within(end, buffer.len()));
    if likely == 0 || striped.read(offset, &mut buffer[..likely])? {
        return Ok(likely);
    }
    let wanted = within(stub.size()?, buffer.len());
    if wanted > 0 {
        // Again: what the length covers may have been written since the first look.
        striped.read(offset, &mut buffer[..wanted])?;
    }
    Ok(wanted)
}

/// `fallocate` modes that make sense for content that is spread: nothing can be moved up or down.
fn is_offered(mode: FallocateMode) -> bool {
    let keep = FallocateMode::KEEP_SIZE;
    match FallocateMode(mode.0 & !keep.0) {
        FallocateMode::ALLOCATE | FallocateMode::ZERO_RANGE => true,
        FallocateMode::PUNCH_HOLE => mode.contains(keep),
        _ => false,
    }
}

/// Writes all, or a prefix when space runs out; an error means that nothing was written.
fn write_content(open: &OpenFile, offset: u64, data: &[u8]) -> Result<usize> {
    match &*open.file.together() {
        Body::Inline => open.stub.write(offset, data),
        Body::Striped(striped) => {
            open.stub.will_change(offset + data.len() as u64)?;
            let done = striped.write(offset, data)?;
            open.stub.was_written(offset + done as u64)?;
            Ok(done)
        }
    }
}

fn fallocate_content(
    open: &OpenFile,
    range: std::ops::Range<u64>,
    mode: FallocateMode,
    is_shared: bool,
) -> Result<()> {
    let stub = &open.stub;
    match &*open.file.alone() {
        Body::Inline => stub.fallocate(range.start, range.end - range.start, mode),
        Body::Striped(striped) => {
            if !is_offered(mode) {
                return Err(FsError::Unsupported);
            }
            stub.will_change(range.end)?;
            striped.fallocate(range.clone(), mode, stub.size()?, is_shared)?;
            if mode.contains(FallocateMode::KEEP_SIZE) {
                stub.was_changed()
            } else {
                stub.was_written(range.end)
            }
        }
    }
}
