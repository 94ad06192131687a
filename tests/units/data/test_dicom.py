import io

import numpy as np
import pydicom
import pytest
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

from image_files import encoded, noise
from interlude.data import dicom as module
from interlude.data.decode import Unreadable, decode, remarks

LEVELS = np.arange(0, 4096, 64, dtype=np.uint16).reshape(8, 8)


def dicom(values=LEVELS, *, preamble=True, **changes):
    """The bytes of a file with these pixels and changed elements; None leaves one out."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    bits = values.itemsize * 8
    elements = {
        "Rows": values.shape[0],
        "Columns": values.shape[1],
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": bits,
        "BitsStored": bits,
        "HighBit": bits - 1,
        "PixelRepresentation": 0,
        "PixelData": values.tobytes(),
    } | changes
    for name, value in elements.items():
        if value is not None:
            setattr(file, name, value)
    out = io.BytesIO()
    file.save_as(out, enforce_file_format=True)
    return out.getvalue()


def levels(content, name="a.dcm"):
    return np.asarray(decode(content, name)).astype(int)


def test_levels_go_from_the_darkest_to_the_brightest_without_a_window():
    expected = [[round(int(value) * 255 / 4032) for value in row] for row in LEVELS]
    assert np.abs(levels(dicom()) - expected).max() <= 1


def test_a_window_is_honoured_after_slope_and_intercept():
    # slope 2 and intercept -1000; the window shows -500 .. 1499
    content = dicom(RescaleSlope=2, RescaleIntercept=-1000, WindowCenter=500, WindowWidth=2000)
    by_hand = []
    for value in LEVELS.flatten().tolist():
        share = (2 * value - 1000 - (500 - 0.5)) / (2000 - 1) + 0.5  # the standard's formula, PS3.3 C.11.2
        by_hand.append(round(min(max(share, 0), 1) * 255))
    assert np.abs(levels(content).flatten() - by_hand).max() <= 1


def test_the_first_of_several_windows_counts():
    one = dicom(WindowCenter=1000, WindowWidth=500)
    several = dicom(WindowCenter=[1000, 3000], WindowWidth=[500, 50])
    assert np.array_equal(levels(one), levels(several))


def test_monochrome1_is_shown_as_its_reverse():
    assert np.array_equal(levels(dicom(PhotometricInterpretation="MONOCHROME1")), 255 - levels(dicom()))


def test_a_colour_image_keeps_its_colours():
    values = np.asarray(noise(4, 4))
    content = dicom(
        values, SamplesPerPixel=3, PhotometricInterpretation="RGB", PlanarConfiguration=0, Rows=4, Columns=4
    )
    assert np.array_equal(levels(content), values)


def test_the_first_of_several_frames_is_taken():
    frames = np.stack([LEVELS, LEVELS[::-1]])
    content = dicom(frames, Rows=8, Columns=8, NumberOfFrames=2)
    assert np.array_equal(levels(content), levels(dicom()))
    assert remarks(decode(content, "a.dcm")) == ("the first of several frames is taken",)


def test_the_content_decides_whether_a_file_is_dicom():
    assert remarks(decode(dicom(), "a.png")) == ("named .png, but it is DICOM",)
    assert remarks(decode(encoded(noise(8, 8), "PNG"), "a.dcm")) == ("named .dcm, but it is PNG",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (dicom(PixelData=None), "without an image"),
        (dicom()[:400], "damaged|without an image"),
        (dicom()[:-20], "damaged"),
        (dicom(Rows=60000, Columns=60000), "3,600,000,000 pixels"),
        (b"not dicom at all", "damaged|without an image"),
    ],
)
def test_a_bad_file_has_a_reason(content, reason):
    with pytest.raises(Unreadable, match=reason):
        decode(content, "a.dcm")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "can_read_dicom", lambda: False)
    with pytest.raises(Unreadable, match=r"pip install 'interlude-ssl\[dicom\]'"):
        decode(dicom(), "a.dcm")


def test_pydicom_reads_our_own_file():
    assert np.array_equal(pydicom.dcmread(io.BytesIO(dicom())).pixel_array, LEVELS)
