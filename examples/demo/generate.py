#!/usr/bin/env python3
"""Makes the demo's input: galaxy spectra as FITS files in the form of the SDSS spPlate files, and as one HDF5 file.

usage: generate.py DIRECTORY

An spPlate file of the survey holds one observed plate: flux and inverse variance of every fibre's spectrum, two masks, the
wavelength dispersion and the subtracted sky as images, and the table of what each fibre was plugged into. The files here have
those units in that order, the survey's pixel count and wavelength keywords, and a quarter of its 640 fibres a plate, so that
40 plates take 600 MB. The spectra are made up (a smooth continuum, a few emission lines at a random redshift, noise) from a
fixed seed.

Leaves DIRECTORY/spPlates/*.fits, DIRECTORY/spectra.h5 and DIRECTORY/pick1000.txt. The marker `complete` is written last and
names this program's version of the data; while it is right nothing is made again, and when it is not all is made anew.
"""

import shutil
import sys
from pathlib import Path

import fits
import h5py
import numpy

VERSION = "1"
SEED = 20171112
PLATES = 40
FIBRES = 160
PIXELS = 3900
PICKS = 1000
COEFF0 = 3.5797
COEFF1 = 0.0001
# Rest wavelengths in Angstrom: [O II], H beta, [O III] twice, H alpha.
LINES = (3728.5, 4862.7, 4960.3, 5008.2, 6564.6)

PLUGMAP = numpy.dtype(
    [
        ("OBJID", "i4", (5,)),
        ("HOLETYPE", "S16"),
        ("RA", "f8"),
        ("DEC", "f8"),
        ("MAG", "f4", (5,)),
        ("OBJTYPE", "S16"),
        ("SPECTROGRAPHID", "i4"),
        ("FIBERID", "i4"),
    ]
)


def spectra(random):
    """Flux, inverse variance, and-mask, or-mask, dispersion and sky of one plate, each FIBRES x PIXELS."""
    wavelength = (10 ** (COEFF0 + COEFF1 * numpy.arange(PIXELS))).astype("f4")
    redshift = random.uniform(0.02, 0.3, (FIBRES, 1)).astype("f4")
    slope = random.uniform(-1, 1, (FIBRES, 1)).astype("f4")
    flux = random.uniform(2, 40, (FIBRES, 1)).astype("f4") * (wavelength / 6000) ** slope
    for line in LINES:
        distance = (wavelength - line * (1 + redshift)) / 3
        flux += random.uniform(0, 30, (FIBRES, 1)).astype("f4") * numpy.exp(-0.5 * distance * distance)
    sigma = numpy.sqrt(0.2 + flux / 20)
    flux += sigma * random.standard_normal((FIBRES, PIXELS), dtype="f4")
    bad = random.random((FIBRES, PIXELS), dtype="f4") < 0.01
    ivar = numpy.where(bad, 0, 1 / (sigma * sigma)).astype("f4")
    andmask = numpy.where(bad, 1 << 20, 0).astype("i4")
    ormask = andmask | numpy.where(random.random((FIBRES, PIXELS), dtype="f4") < 0.02, 1 << 23, 0).astype("i4")
    dispersion = numpy.broadcast_to((0.9 + 0.3 * (wavelength / 9000)).astype("f4"), (FIBRES, PIXELS))
    sky = (5 + random.standard_normal((FIBRES, PIXELS), dtype="f4")).astype("f4")
    return flux.astype("f4"), ivar, andmask, ormask, dispersion, sky


def plugmap(random, plate):
    rows = numpy.zeros(FIBRES, PLUGMAP)
    rows["OBJID"] = random.integers(1, 1000, (FIBRES, 5))
    rows["HOLETYPE"] = b"OBJECT"
    rows["OBJTYPE"] = b"GALAXY"
    rows["RA"] = 120 + plate % 100 + random.uniform(0, 3, FIBRES)
    rows["DEC"] = random.uniform(0, 60, FIBRES)
    rows["MAG"] = random.uniform(15, 22, (FIBRES, 5))
    rows["SPECTROGRAPHID"] = 1 + numpy.arange(FIBRES) // (FIBRES // 2)
    rows["FIBERID"] = 1 + numpy.arange(FIBRES)
    return rows


def plate_units(plate, mjd, images, table):
    """The bytes of one spPlate file, unit by unit."""
    flux, ivar, andmask, ormask, dispersion, sky = images
    cards = [
        fits.card("PLATEID", plate, "plate"),
        fits.card("MJD", mjd, "day of the observation"),
        fits.card("TELESCOP", "MADE-UP", "no telescope: made by generate.py"),
        fits.card("BUNIT", "1E-17 erg/cm^2/s/Ang"),
        fits.card("COEFF0", COEFF0, "log10 of the first pixel's wavelength"),
        fits.card("COEFF1", COEFF1, "step of log10 of the wavelength"),
        fits.card("DC-FLAG", 1, "logarithmic wavelengths"),
    ]
    yield fits.image(flux, extra=cards)
    yield fits.image(ivar, "IVAR")
    yield fits.image(andmask, "ANDMASK")
    yield fits.image(ormask, "ORMASK")
    yield fits.image(dispersion, "WAVEDISP")
    yield fits.table(table, "PLUGMAP")
    yield fits.image(sky, "SKY")


def generate(directory):
    plates = directory / "spPlates"
    plates.mkdir(parents=True)
    random = numpy.random.default_rng(SEED)
    names = []
    with h5py.File(directory / "spectra.h5", "w") as hdf5:
        for number in range(PLATES):
            plate, mjd = 266 + 7 * number, 51602 + 3 * number
            images, table = spectra(random), plugmap(random, plate)
            name = f"spPlate-{plate:04}-{mjd}.fits"
            with open(plates / name, "wb") as file:
                for unit in plate_units(plate, mjd, images, table):
                    file.write(unit)
            group = hdf5.create_group(f"{plate:04}-{mjd}")
            group.attrs.update({"COEFF0": COEFF0, "COEFF1": COEFF1})
            group.create_dataset("flux", data=images[0])
            group.create_dataset("ivar", data=images[1])
            names.append(name)
    picks = random.choice(PLATES * FIBRES, PICKS, replace=False)
    lines = [f"{names[pick // FIBRES]} {pick % FIBRES}\n" for pick in picks]
    (directory / "pick1000.txt").write_text("".join(lines))


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    marker = directory / "complete"
    if marker.is_file() and marker.read_text() == VERSION:
        return 0
    print(f"demo: making the input in {directory} (once)", flush=True)
    marker.unlink(missing_ok=True)
    shutil.rmtree(directory / "spPlates", ignore_errors=True)
    generate(directory)
    marker.write_text(VERSION)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
