"""What the plots of the bench show. Run with: python3 -m unittest discover -s tests/bench"""

import sys
import unittest
import xml.etree.ElementTree as tree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benches"))

from plot import panel, picture, short, ticks

LINES = {"read <fast>": [(1, 100), (10, 1000), (100, 10_000)], "write": [(1, 5000)]}


def elements(panels, name):
    return tree.fromstring(picture(panels)).iter("{http://www.w3.org/2000/svg}" + name)


class Plot(unittest.TestCase):
    def test_every_value_is_a_point_and_every_line_has_a_name(self):
        self.assertEqual(len(list(elements([panel("t", LINES)], "circle"))), 4)
        texts = [element.text for element in elements([panel("t", LINES)], "text")]
        for name in LINES:
            self.assertIn(name, texts)

    def test_equal_factors_are_equal_distances(self):
        points = [(float(c.get("cx")), float(c.get("cy"))) for c in elements([panel("t", {"a": LINES["read <fast>"]})], "circle")]
        (x0, y0), (x1, y1), (x2, y2) = points
        self.assertAlmostEqual(x1 - x0, x2 - x1, delta=0.2)
        self.assertAlmostEqual(y1 - y0, y2 - y1, delta=0.2)
        self.assertLess(y2, y1)

    def test_the_axis_holds_all_values(self):
        self.assertEqual(ticks(50, 3000), [10.0, 100.0, 1000.0, 10_000.0])
        self.assertEqual(ticks(100, 100), [100.0, 1000.0])

    def test_what_cannot_be_drawn_is_refused(self):
        for lines in ({}, {"a": []}, {"a": [(1, 0)]}):
            with self.assertRaises(ValueError):
                panel("t", lines)

    def test_panels_stand_in_two_columns(self):
        places = [g.get("transform") for g in elements([panel("t", LINES)] * 3, "g")]
        self.assertEqual(places, ["translate(0 0)", "translate(460 0)", "translate(0 300)"])

    def test_large_numbers_are_short(self):
        self.assertEqual([short(value) for value in (0.1, 10, 1000, 2_500_000)], ["0.1", "10", "1k", "2.5M"])


if __name__ == "__main__":
    unittest.main()
