"""Names that models go by: the index of hub ids and short names, read only where a name is no id of the catalogue."""

from kvplan.names.index import EVIDENCE, Named, everything, exact
from kvplan.names.library import file_of_release, tag_of, taken_as
from kvplan.names.look_up import by_its_name, look_up
from kvplan.names.not_known import unknown
from kvplan.names.spellings import own_release, undressed
from kvplan.names.written import names_a_file

__all__ = [
    "EVIDENCE",
    "Named",
    "by_its_name",
    "everything",
    "exact",
    "file_of_release",
    "look_up",
    "names_a_file",
    "own_release",
    "tag_of",
    "taken_as",
    "undressed",
    "unknown",
]
