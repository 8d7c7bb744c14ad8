"""JSON text of other libraries -> document, with memory in proportion to the text."""

from __future__ import annotations

import json
from typing import Any

from hornbeam.core.errors import ModelFormatError
from hornbeam.model.file.parsing import unique_keys
from hornbeam.model.file.tree_checks import fail

BYTES_A_LIST = 72
"""Memory of an empty list or object and of its place in a list: three characters of text become so many bytes."""

MOST_TIMES = 8
"""Memory of the lists and objects of a text, in its length; a model has some twenty a tree."""

FEW = 10_000


def check_containers(number: int, size: int, place: str) -> None:
    """Fail if a text or file of some size could hold no model: it is lists of nothing."""
    if number > FEW and number * BYTES_A_LIST > MOST_TIMES * size:
        fail(place, f"the file is damaged or hostile: {number} lists and objects in {size} bytes")


def parse_text(data: bytes, place: str) -> Any:
    """Return the document of JSON text; NaN and Infinity are numbers. Fail if it is none, or has a key twice."""
    check_containers(data.count(b"[") + data.count(b"{"), len(data), place)
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique_keys)
    except UnicodeDecodeError as error:
        fail(place, f"the file is damaged: byte {error.start} is not UTF-8 text")
    except json.JSONDecodeError as error:
        fail(place, f"the file is damaged or cut short: {error}")
    except RecursionError:
        fail(place, "the file is damaged: its JSON is nested too deeply")
    except ModelFormatError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        fail(place, f"the file is damaged: {error}")
