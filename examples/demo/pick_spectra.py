#!/usr/bin/env python3
"""Reads the spectra of a list, one by one, as a query against the survey would, and adds them up.

usage: pick_spectra.py fits|hdf5 DIRECTORY OUTPUT

DIRECTORY holds pick1000.txt and either spPlates/ or spectra.h5. Every pick opens its file, finds the images and reads one row of
flux and one of inverse variance. OUTPUT gets the mean spectrum, weighted by the inverse variance, as text. Prints one line of
JSON: seconds from the first open to the last read, spectra, bytes, and the sum that tells whether two runs read the same.
"""

import json
import sys
import time
from pathlib import Path

import fits
import h5py
import numpy


def from_fits(directory, name, fibre):
    with open(directory / "spPlates" / name, "rb") as file:
        images = fits.Images(file, 2)
        return images.row(0, fibre), images.row(1, fibre)


def from_hdf5(directory, name, fibre):
    with h5py.File(directory / "spectra.h5", "r") as file:
        group = file[name.removeprefix("spPlate-").removesuffix(".fits")]
        return group["flux"][fibre], group["ivar"][fibre]


READERS = {"fits": from_fits, "hdf5": from_hdf5}


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in READERS:
        print(__doc__, file=sys.stderr)
        return 2
    read, directory = READERS[arguments[0]], Path(arguments[1])
    picks = [line.split() for line in (directory / "pick1000.txt").read_text().splitlines()]
    weighted = weight = 0
    size = 0
    start = time.perf_counter()
    for name, fibre in picks:
        flux, ivar = read(directory, name, int(fibre))
        weighted = weighted + flux.astype("f8") * ivar
        weight = weight + ivar.astype("f8")
        size += flux.nbytes + ivar.nbytes
    seconds = time.perf_counter() - start
    numpy.savetxt(arguments[2], weighted / numpy.maximum(weight, 1e-30), fmt="%.6e")
    print(json.dumps({"seconds": seconds, "spectra": len(picks), "bytes": size, "sum": float(weighted.sum()).hex()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
