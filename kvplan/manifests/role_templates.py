"""RoleBasedGroup's pods by reference: a role names a template of the group and what it patches in it.

sgl-project/rbg, api/workloads/v1alpha2 RoleBasedGroupSpec.RoleTemplates and RoleSpec's templateRef (name, patch: a strategic merge, by the
names of containers, variables and volumes).
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.manifests.budget import spend
from kvplan.manifests.marked import NOTHING, Item

TEMPLATES, REFERENCE = "roleTemplates", "templateRef"


def filled(document: Item) -> Item:
    """The object with each reference replaced by its template, and without the templates, which start nothing themselves."""
    spec = document.get("spec")
    templates = {one.get("name").text: one.get("template") for one in spec.get(TEMPLATES)}
    if not templates:
        return document
    kept = replace(spec, value={key: _filled(one, templates) for key, one in spec.items() if key != TEMPLATES})
    return replace(document, value={**document.value, "spec": kept})


def _filled(item: Item, templates: dict[str, Item]) -> Item:
    if isinstance(item.value, list):
        return replace(item, value=[_filled(one, templates) for one in item])
    if not isinstance(item.value, dict):
        return item
    value = {key: _filled(one, templates) for key, one in item.items() if key != REFERENCE}
    if reference := item.get(REFERENCE):
        value["template"] = _merged(templates.get(reference.get("name").text, NOTHING), reference.get("patch"))
    return replace(item, value=value)


def _merged(old: Item, new: Item) -> Item:
    """`new` over `old`: mappings by their keys, lists of named things by their names, all else as `new` has it."""
    spend(1, new.place.line)
    if not old or not new:
        return new or old
    if isinstance(old.value, dict) and isinstance(new.value, dict):
        own = {key: _merged(old.get(key), one) for key, one in new.items()}
        return replace(new, value={**old.value, **own})
    named = [isinstance(one.value, list) and all(part.get("name") for part in one) for one in (old, new)]
    if all(named):
        kept = {one.get("name").text: one for one in old}
        for one in new:
            kept[one.get("name").text] = _merged(kept.get(one.get("name").text, NOTHING), one)
        return replace(new, value=[*kept.values()])
    return new
