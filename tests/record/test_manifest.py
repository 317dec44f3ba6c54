import threading
from pathlib import Path

from tracer.model.trace_folder import Manifest
from tracer.record.manifest import read_manifest, update_manifest, write_manifest


def test_changes_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest("run"))

    def count(manifest: Manifest) -> None:
        manifest.steps += 1

    def work() -> None:
        for _ in range(25):
            update_manifest(tmp_path, count)
            assert read_manifest(tmp_path).run_id == "run"  # whole at every moment

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert read_manifest(tmp_path).steps == 100
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
