# fio writes with checksums and reads them back, through every way to do I/O that it has.
run() {
    name=$1
    shift
    fio --output="$LOCAL/fio.log" --name="$name" --filename="$name.dat" --size=8m --verify=crc32c --verify_fatal=1 \
        --do_verify=1 --randrepeat=0 --end_fsync=1 "$@" || { cat "$LOCAL/fio.log"; exit 1; }
    if grep -qiE 'verify failed|verify: bad' "$LOCAL/fio.log"; then cat "$LOCAL/fio.log"; exit 1; fi
    rm "$name.dat"
}
run psync --ioengine=psync --rw=randwrite --bs=1k-70k
run sync-sequential --ioengine=sync --rw=write --bs=1m
run vectored --ioengine=pvsync2 --rw=randwrite --bs=4k
# One block size where many writes are in flight: of two that overlap nobody knows which is the later one.
run libaio --ioengine=libaio --iodepth=16 --rw=randwrite --bs=16k
run libaio-direct --ioengine=libaio --iodepth=16 --direct=1 --rw=randwrite --bs=64k
run psync-direct --ioengine=psync --direct=1 --rw=randwrite --bs=64k
run mapped --ioengine=mmap --rw=randwrite --bs=4k
run mixed --ioengine=psync --rw=randrw --rwmixread=50 --bs=8k
# The kernel may have io_uring switched off for this user: then fio says so and nothing has been judged.
if /usr/bin/python3 -c 'import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(425, 4, ctypes.create_string_buffer(120))
sys.exit(0 if fd >= 0 else 1)'; then
    run uring --ioengine=io_uring --iodepth=16 --rw=randwrite --bs=16k
else
    echo "io_uring is switched off on this machine"
fi
# Two processes in one file, each its own half.
fio --output="$LOCAL/fio.log" --name=shared --filename=shared.dat --size=4m --offset_increment=4m --numjobs=2 \
    --ioengine=psync --rw=randwrite --bs=16k --verify=crc32c --verify_fatal=1 --do_verify=1 || { cat "$LOCAL/fio.log"; exit 1; }
test "$(stat -c %s shared.dat)" = $((8 << 20))
