"""How the bench forms its ratios and verdicts. Run with: python3 -m unittest discover -s tests/bench"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benches"))

from rows import RowError, limit_row, one_after_the_other, row, table


class Rows(unittest.TestCase):
    def test_a_rate_is_better_when_it_is_higher(self):
        self.assertEqual(row("w", [50], [100], "MiB/s", 0.35)["ratio"], 0.5)

    def test_a_time_is_better_when_it_is_lower(self):
        self.assertEqual(row("t", [50], [100], "ms", 1.0)["ratio"], 2.0)

    def test_a_goal_holds_at_and_above_it_and_not_below(self):
        self.assertIs(row("w", [35], [100], "MiB/s", 0.35)["holds"], True)
        self.assertIs(row("w", [34], [100], "MiB/s", 0.35)["holds"], False)

    def test_no_goal_no_verdict(self):
        self.assertIsNone(row("w", [1], [100], "MiB/s")["holds"])

    def test_the_ratio_is_formed_round_by_round(self):
        # The machine was ten times slower in two of three rounds: each round says 0.5, the medians alone would say otherwise.
        self.assertEqual(row("w", [5, 50, 5], [10, 100, 10], "op/s")["ratio"], 0.5)

    def test_one_wild_round_does_not_decide(self):
        self.assertEqual(row("w", [50, 50, 1], [100, 100, 100], "op/s")["ratio"], 0.5)

    def test_a_limit_from_above(self):
        self.assertIs(limit_row("run", [149.0], 150, "ms")["holds"], True)
        self.assertIs(limit_row("run", [151.0], 150, "ms")["holds"], False)

    def test_a_limit_from_below(self):
        self.assertIs(limit_row("create", [4000], 4000, "files/s")["holds"], True)
        self.assertIs(limit_row("create", [3999], 4000, "files/s")["holds"], False)

    def test_what_is_done_one_after_the_other_takes_the_times_of_both(self):
        self.assertEqual(one_after_the_other([20, 40], [20, 10]), [10, 8])

    def test_rounds_that_have_no_partner_are_an_error(self):
        with self.assertRaises(ValueError):
            one_after_the_other([20, 40], [20])

    def test_missing_figures_are_an_error(self):
        for ours, reference, unit in (([], [], "s"), ([1], [1, 2], "s"), ([0], [1], "s"), ([1], [1], "parsecs")):
            with self.assertRaises(RowError):
                row("x", ours, reference, unit)

    def test_the_table_names_what_was_missed(self):
        lines = list(table([row("slow", [1], [100], "op/s", 0.5), row("info", [1], [100], "op/s")]))
        self.assertIn("MISSED", lines[1])
        self.assertNotIn("MISSED", lines[2])


if __name__ == "__main__":
    unittest.main()
