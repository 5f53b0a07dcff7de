"""Pages at addresses that have changed: each leads to where its content is now."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

SOURCES = "https://github.com/anydml/anydml/blob/main"
"""Where files are that are not on the site."""

MOVED = {
    "add-an-engine": "add-an-operator#add-an-engine",
    "ambiguities": "referee#ambiguities-in-documents",
    "coming-from": "arrays#beside-numpy-pytorch-and-jax",
    "dask": "arrays#dask",
    "feature-levels": "directml#feature-levels",
    "gallery": "explain#gallery",
    "gpu": "engines#on-a-gpu",
    "graphs": "directml#graphs",
    "images": "stories/data-loader#steps-for-images",
    "loose-ends": "referee#ambiguities-in-documents",
    "plans": "files#how-plans-run",
    "platforms": "engines#platforms",
    "pydirectml": "directml#pydirectmls-builder",
    "ranks": "reshard#how-ranks-share-tensors",
    "sharded-training": "torch#copies-of-sharded-training",
    "stores": "files",
    "stories/bucket": "rechunk#in-a-bucket",
    "stories/check-in-ci": "directml#check-a-model",
    "stories/images": "stories/data-loader#steps-for-images",
    "stories/qkv": "files#split-a-fused-qkv",
    "stories/rechunk": "rechunk",
    "stories/sharded-training": "torch#copies-of-sharded-training",
    "stories/still-my-model": "prove",
    "stories/without-windows": "directml#run-an-example",
    "supported-functions": "traces#supported-functions",
    "tests": f"{SOURCES}/CONTRIBUTING.md#tests-with-random-and-hostile-input",
    "tour": "add-an-operator#a-tour-of-one-call",
    "trust": "engines#guarantees",
    "tutorials": "files#split-a-fused-qkv",
}
"""New pages by old ones, with headings where they have several subjects; or files of the sources, by addresses."""

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={url}">
<p>This page has moved to <a href="{url}">{url}</a>.
"""


def on_post_build(config: Any) -> None:
    """Write the pages, by MkDocs when it has built the site."""
    for old, new in MOVED.items():
        path = Path(config["site_dir"], f"{old}.html")
        page, hash_sign, heading = new.partition("#")
        is_source = page.startswith(SOURCES)
        address = page if is_source else posixpath.relpath(f"{page}.html", posixpath.dirname(old) or ".")
        url = address + hash_sign + heading
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(url=url), encoding="utf-8")
