#!/usr/bin/env python3
"""Makes the graphs of the benchmarks: `python3 benches/gpu/graphs.py --folder DIR twitter-like reddit-like`."""

import argparse
import sys
from pathlib import Path

from common import GRAPHS, ROOT, gnnc_binary, graph_file

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=list(GRAPHS))
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    options = parser.parse_args()
    made = [graph_file(name, gnnc_binary(), options.folder) for name in options.names]
    sys.exit(0 if all(made) else 1)
