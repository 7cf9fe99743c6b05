#!/usr/bin/env python3
"""Makes examples/data/aifb_types.npz of examples/data/aifb.npz: the same graph with a type for each vertex.

The type of a vertex is the class that it belongs to, by the edges of the relation rdf:type (number 39 of the archive): of
several classes the one with the most vertices. Classes with fewer than 40 vertices are one type, `other`. Vertices without a
class are texts and numbers, `literal`. The archive has no names, so classes are named by their vertices. Needs NumPy.
"""

from collections import Counter
from pathlib import Path

import numpy as np

RDF_TYPE = 39
FEWEST = 40

data = Path(__file__).resolve().parent.parent / "examples" / "data"
arrays = dict(np.load(data / "aifb.npz"))
vertices = len(arrays["indptr"]) - 1
targets = np.repeat(np.arange(vertices), np.diff(arrays["indptr"]))
is_type = arrays["edge_type"] == RDF_TYPE
pairs = list(zip(arrays["indices"][is_type].tolist(), targets[is_type].tolist()))
sizes = Counter(of for _, of in pairs)

chosen = {}
for vertex, of in pairs:
    if vertex not in chosen or (sizes[of], of) > (sizes[chosen[vertex]], chosen[vertex]):
        chosen[vertex] = of
final = Counter(chosen.values())
large = sorted(of for of, count in final.items() if count >= FEWEST)
names = ["literal", "other"] + [f"class {of}" for of in large]
place = {of: 2 + n for n, of in enumerate(large)}

types = np.zeros(vertices, np.uint16)
for vertex, of in chosen.items():
    types[vertex] = place.get(of, 1)
arrays["vertex_type"] = types
arrays["vertex_type_names"] = np.array(names)
np.savez_compressed(data / "aifb_types.npz", **arrays)
print(dict(zip(names, np.bincount(types, minlength=len(names)).tolist())))
