# HDF5 files by h5py, looked at and packed anew by HDF5's own tools.
/usr/bin/python3 - <<'PROGRAM'
import h5py, numpy
data = numpy.arange(400_000, dtype="f8").reshape(400, 1000)
with h5py.File("file.h5", "w") as file:
    file["whole"] = data
    file.create_dataset("chunked", data=data, chunks=(50, 100), compression="gzip", shuffle=True)
    growing = file.create_dataset("growing", (0,), maxshape=(None,), dtype="i4", chunks=(1000,))
    for round in range(20):
        growing.resize(((round + 1) * 700,))
        growing[round * 700:] = round
    for number in range(100):
        group = file.create_group(f"plate/{number}")
        group["flux"] = data[number]
        group.attrs["name"] = f"plate {number}"
with h5py.File("file.h5", "r+") as file:
    file["whole"][10:20, 5] = -1
    del file["plate/50"]
with h5py.File("file.h5", "r") as file:
    assert (file["chunked"][...] == data).all()
    assert (file["whole"][10:20, 5] == -1).all() and file["whole"][9, 5] == data[9, 5]
    assert file["growing"].shape == (14_000,) and file["growing"][-1] == 19
    assert len(file["plate"]) == 99
PROGRAM
h5dump -H file.h5 > header.txt
grep -q 'DATASET "growing"' header.txt
h5repack -f GZIP=1 file.h5 packed.h5
h5diff file.h5 packed.h5
cp packed.h5 "$LOCAL/"
h5diff "$LOCAL/packed.h5" file.h5
h5repack packed.h5 "$LOCAL/again.h5"
h5diff "$LOCAL/again.h5" file.h5
