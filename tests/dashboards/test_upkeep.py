"""Pumps, bottles and levels over the API: what is shown, what operators enter, what is refused with the reason."""

from __future__ import annotations

import pytest

from choroid.commands.ledger import MATERIALS
from choroid.operating.tissue import as_text
from controller.upkeep.tubing import LIFE_REVOLUTIONS
from dashboards.auth import Role
from tests.dashboards.world import world


@pytest.mark.virtual_time
async def test_a_viewer_sees_pumps_batches_and_vessels() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer:
        pumps = {each["pump"]: each for each in (await viewer.get("/api/pumps")).json()["pumps"]}
        assert pumps["reglo.draw"]["gain"] == {"value": 0.97, "sd": 0.01}
        assert pumps["reglo.heart"]["gain"] is None
        assert pumps["reglo.heart"]["circulates"]
        assert pumps["reglo.draw"]["tubing"]["bore_mm"] == 1.02
        assert pumps["reglo.draw"]["tubing"]["material"] == "pharmed-bpt"
        assert pumps["reglo.draw"]["tubing"]["remaining_revolutions"] == LIFE_REVOLUTIONS["pharmed-bpt"]
        assert pumps["reglo.draw"]["calibration"]["valid"]
        (batch,) = (await viewer.get("/api/batches")).json()["batches"]
        assert batch["now_ul"] == {"reservoir": 458_800.0}
        assert (await viewer.get("/api/batches/NB-1")).json() == batch
        vessels = {each["name"]: each for each in (await viewer.get("/api/vessels")).json()["vessels"]}
        assert vessels["reservoir"]["parcels"] == [{"lot": "NB-1", "uses": 0, "share": 1.0}]


@pytest.mark.virtual_time
async def test_D4_an_operator_enters_tubing_a_bottle_and_a_level() -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        body = {"material": "pharmed-bpt", "bore": "1.14 mm", "lot": "T7", "reason": "cracked"}
        (pump,) = (await operator.post("/api/pumps/reglo.draw/tubing", json=body)).json()["pumps"]
        assert pump["tubing"]["bore_mm"] == 1.14
        assert "wrong tubing" in pump["calibration"]["refusal"]
        (row,) = [row for row in w.controller.journal.rows if row.kind == "tubing.installed"]
        assert (row.body["reason"], row.body["old"]["bore_mm"]) == ("cracked", 1.02)
        assert row.body["by"]
        bottle = {"lot": "NB-2", "volume": "500 mL", "expires": "2027-01-01"}
        answer = await operator.post("/api/vessels/reservoir/load", json=bottle)
        assert answer.status_code == 201
        assert answer.json()["medium"] == "fresh"
        level = (await operator.post("/api/vessels/loop/level", json={"volume": "39 mL", "within": "0.5 mL"})).json()
        assert level["sigmas"] == pytest.approx(-2.0)
        assert not level["gross"]
        emptied = {"volume": "0 mL", "within": "1 mL", "reason": "emptied"}
        waste = (await operator.post("/api/vessels/waste/change", json=emptied)).json()
        assert (waste["name"], waste["ml"]) == ("waste", 0.0)
        entered = [("reservoir", 500_000.0), ("loop", 39_000.0), ("waste", 0.0)]
        assert w.controller.ledger.entered == entered


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/pumps/reglo.unknown/tubing", {"material": "silicone"}, 422),
        ("/api/pumps/reglo.draw/tubing", {"material": "rubber"}, 422),
        ("/api/pumps/reglo.draw/tubing", {"material": "silicone", "bore": "1 mL"}, 422),
        ("/api/vessels/nowhere/load", {"lot": "A", "volume": "1 mL"}, 422),
        ("/api/vessels/reservoir/load", {"lot": "", "volume": "1 mL"}, 422),
        ("/api/vessels/reservoir/load", {"lot": "A", "volume": "500"}, 422),
        ("/api/vessels/loop/level", {"volume": "39 mL"}, 422),
        ("/api/vessels/waste/change", {"volume": "0 mL", "within": "1 mL"}, 422),
        ("/api/vessels/waste/change", {"volume": "0 mL", "within": "1 mL", "reason": " "}, 422),
        ("/api/vessels/nowhere/change", {"volume": "0 mL", "within": "1 mL", "reason": "emptied"}, 422),
    ],
)
async def test_F6_what_cannot_be_is_refused(path: str, body: dict[str, str], status: int) -> None:
    async with world() as w, w.http(Role.OPERATOR) as operator:
        before = w.changes()
        assert (await operator.post(path, json=body)).status_code == status
        assert w.changes() == before


def test_the_command_line_knows_the_materials_of_the_rig_file() -> None:
    assert set(MATERIALS) == set(LIFE_REVOLUTIONS)


@pytest.mark.virtual_time
async def test_tissue_is_listed_moved_and_taken_out_with_role_and_reason() -> None:
    async with world() as w, w.http(Role.VIEWER) as viewer, w.http(Role.OPERATOR) as operator:
        chamber = (await viewer.get("/api/tissue")).json()["chambers"][0]["chamber"]
        gone = {"reason": "fixed for histology"}
        assert (await viewer.post(f"/api/tissue/{chamber}/remove", json=gone)).status_code == 403
        assert (await operator.post(f"/api/tissue/{chamber}/remove", json={"reason": ""})).status_code == 422
        (after,) = (await operator.post(f"/api/tissue/{chamber}/remove", json=gone)).json()["chambers"]
        assert after["tissue"] is None
        (row,) = after["history"]
        assert (row["kind"], row["user"], row["role"]) == ("tissue.removed", "a operator", "operator")
        nowhere = await operator.post(f"/api/tissue/{chamber}/move", json={**gone, "target": chamber})
        assert (nowhere.status_code, "there is no tissue in" in nowhere.text) == (422, True)
        too_many = {"reason": "many", "count": 9000, "diameter": "4 mm", "age": "60 d"}
        unsafe = await operator.post(f"/api/tissue/{chamber}/place", json=too_many)
        assert (unsafe.status_code, "does not protect tissue" in unsafe.text) == (409, True)
        sure = await operator.post(f"/api/tissue/{chamber}/place", json={**too_many, "sure": True})
        assert (sure.status_code, "takes the role engineer" in sure.text) == (403, True)
        few = {"reason": "new batch", "count": 8, "diameter": "3 mm", "age": "60 d", "batch": "b8"}
        (placed,) = (await operator.post(f"/api/tissue/{chamber}/place", json=few)).json()["chambers"]
        assert (placed["tissue"]["count"], placed["tissue"]["batch"], placed["tissue"]["by"]) == (
            8,
            "b8",
            "a operator",
        )
        lines = as_text({"chambers": [placed]}, history=True).splitlines()
        assert lines[0].split() == [chamber, "8", "×", "3", "mm,", "60.0", "d,", "batch", "b8"]
        assert lines[1].endswith(f"{chamber}, by a operator (operator): fixed for histology")
