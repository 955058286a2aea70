"""The part of the FITS format that an spPlate file needs: image extensions and one binary table.

A FITS file is a sequence of header-and-data units. A header is 80-character cards, `END` the last, padded with blanks to a
multiple of 2880 bytes; data is big-endian and padded with zeros likewise. An image of NAXIS1 x NAXIS2 pixels lies in the file
row by row, so one spectrum (one row) is one contiguous piece: that is what makes picking spectra a test of small reads.
"""

import numpy

BLOCK = 2880
CARD = 80
BITPIX = {"f4": -32, "i4": 32}
DTYPE = {-32: ">f4", 32: ">i4"}
TABLE_FORM = {"f4": "E", "f8": "D", "i4": "J"}


def card(keyword, value, comment=""):
    """One header card. Logical values and numbers end at column 30, strings begin at column 11, as the standard asks."""
    if isinstance(value, bool):
        text = f"{'T' if value else 'F':>20}"
    elif isinstance(value, int):
        text = f"{value:>20}"
    elif isinstance(value, float):
        text = f"{value!r:>20}".replace("e", "E")
    else:
        text = "'{:<8}'".format(value.replace("'", "''"))
        text = f"{text:<20}"
    line = f"{keyword:<8}= {text}" + (f" / {comment}" if comment else "")
    if len(line) > CARD:
        raise ValueError(f"the card of {keyword} has {len(line)} characters, at most {CARD} fit")
    return f"{line:<{CARD}}".encode("ascii")


def header(cards):
    data = b"".join(cards) + b"END".ljust(CARD)
    return data.ljust(-(-len(data) // BLOCK) * BLOCK, b" ")


def padded(data):
    return data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")


def image(array, name=None, extra=()):
    """An image unit: the primary one where `name` is None, an extension otherwise. `extra` are ready-made cards."""
    kind = array.dtype.str[1:]
    first = card("SIMPLE", True, "conforms to FITS") if name is None else card("XTENSION", "IMAGE", "image extension")
    cards = [
        first,
        card("BITPIX", BITPIX[kind], "bits per pixel, negative: IEEE float"),
        card("NAXIS", 2),
        card("NAXIS1", array.shape[1], "pixels of a spectrum"),
        card("NAXIS2", array.shape[0], "fibres"),
    ]
    if name is None:
        cards.append(card("EXTEND", True, "extensions follow"))
    else:
        cards += [card("PCOUNT", 0), card("GCOUNT", 1), card("EXTNAME", name)]
    return header([*cards, *extra]) + padded(array.astype(array.dtype.newbyteorder(">")).tobytes())


def table(array, name):
    """A binary table unit out of a one-dimensional structured array of f4, f8, i4 and byte-string (S) columns."""
    columns = []
    for number, column in enumerate(array.dtype.names, start=1):
        base, shape = array.dtype[column].base, array.dtype[column].shape
        count = int(numpy.prod(shape)) if shape else 1
        form = f"{base.itemsize}A" if base.kind == "S" else f"{count}{TABLE_FORM[base.str[1:]]}"
        columns += [card(f"TTYPE{number}", column), card(f"TFORM{number}", form)]
    cards = [
        card("XTENSION", "BINTABLE", "binary table extension"),
        card("BITPIX", 8),
        card("NAXIS", 2),
        card("NAXIS1", array.dtype.itemsize, "bytes of a row"),
        card("NAXIS2", len(array), "rows"),
        card("PCOUNT", 0),
        card("GCOUNT", 1),
        card("TFIELDS", len(array.dtype.names)),
        *columns,
        card("EXTNAME", name),
    ]
    return header(cards) + padded(array.astype(array.dtype.newbyteorder(">")).tobytes())


def read_header(file):
    """Reads the header at the file's position, as a dictionary of the cards that have a value."""
    cards = {}
    while True:
        block = file.read(BLOCK)
        if len(block) != BLOCK:
            raise ValueError(f"{file.name}: a header ends before its END card, after {file.tell()} bytes")
        for start in range(0, BLOCK, CARD):
            line = block[start : start + CARD].decode("ascii")
            if line.startswith("END "):
                return cards
            if line[8:10] == "= ":
                cards[line[:8].rstrip()] = value_of(line[10:])


def value_of(text):
    text = text.strip()
    if text.startswith("'"):
        return text[1:].split("'")[0].rstrip()
    word = text.split("/")[0].strip()
    if word in ("T", "F"):
        return word == "T"
    return float(word) if any(letter in word for letter in ".E") else int(word)


class Images:
    """The image units of an open FITS file, found by walking over the headers; no pixel is read before `row` asks."""

    def __init__(self, file, count):
        self.file = file
        self.units = []
        for _ in range(count):
            cards = read_header(file)
            start = file.tell()
            self.units.append((cards, start))
            size = abs(cards["BITPIX"]) // 8 * cards["NAXIS1"] * cards["NAXIS2"]
            file.seek(start + -(-size // BLOCK) * BLOCK)

    def row(self, unit, number):
        """One spectrum: row `number` of image `unit`, in the machine's byte order."""
        cards, start = self.units[unit]
        if not 0 <= number < cards["NAXIS2"]:
            raise ValueError(f"{self.file.name}: no fibre {number}, there are {cards['NAXIS2']}")
        kind = numpy.dtype(DTYPE[cards["BITPIX"]])
        length = cards["NAXIS1"] * kind.itemsize
        self.file.seek(start + number * length)
        data = self.file.read(length)
        if len(data) != length:
            raise ValueError(f"{self.file.name}: {len(data)} bytes of fibre {number}, expected {length}")
        return numpy.frombuffer(data, kind).astype(kind.newbyteorder("="))
