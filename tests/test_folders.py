import pytest

from poolsieve.folders import lock_folder


def test_a_held_folder_is_refused_and_free_afterwards(tmp_path):
    folder = tmp_path / "new" / "folder"
    with lock_folder(folder):
        with pytest.raises(TimeoutError), lock_folder(folder):
            pass
        with pytest.raises(TimeoutError), lock_folder(folder):  # the refusal left the lock as it was
            pass
    with lock_folder(folder):
        pass


def test_a_failure_frees_the_folder(tmp_path):
    with pytest.raises(KeyError), lock_folder(tmp_path):
        raise KeyError
    with lock_folder(tmp_path):
        pass
