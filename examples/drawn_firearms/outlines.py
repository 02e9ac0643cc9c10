"""Side views of eight kinds of firearms, drawn by this project: outlines with materials.

Coordinates are pixels of a canvas of 1,000 x 700 (handguns) or 1,400 x 520 (long guns), muzzle to the left.
They show what a firearm looks like from outside, nothing of how one works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drawn_firearms.drawing import Sheet
from drawn_firearms.shading import (
    BEECH,
    BLACK_STEEL,
    BLUED_STEEL,
    BRASS,
    BRIGHT_STEEL,
    GLASS,
    HOLLOW,
    OLIVE,
    POLYMER,
    RUBBER,
    WALNUT,
    Canvas,
    Material,
)


@dataclass(frozen=True)
class Finish:
    """What a firearm is made of.

    Attributes:
        metal: Slide, barrel, receiver.
        frame: Frame, magazine, small parts.
        grip: Grip, stock, fore-end.
    """

    metal: Material
    frame: Material
    grip: Material


FINISHES = {
    "blued": Finish(BLUED_STEEL, BLUED_STEEL, WALNUT),
    "bright": Finish(BRIGHT_STEEL, BRIGHT_STEEL, RUBBER),
    "black": Finish(BLACK_STEEL, POLYMER, POLYMER),
    "two-tone": Finish(BRIGHT_STEEL, POLYMER, POLYMER),
    "army": Finish(BLACK_STEEL, BLACK_STEEL, BEECH),
    "olive": Finish(BLACK_STEEL, BLACK_STEEL, OLIVE),
}


def _trigger(sheet: Sheet, x: float, y: float, material: Material, size: float = 1.0) -> None:
    """A curved trigger that hangs down from (x, y)."""
    curve = [(0, 0), (26, 0), (22, 30), (14, 58), (2, 80), (-8, 84), (-4, 60), (2, 30)]
    sheet.shape([(x + size * a, y + size * b) for a, b in curve], material, 5)


def pistol(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A service pistol with an outside hammer."""
    sheet = Sheet(1000, 700, rng)
    grip = "560,250 800,235 812,300 872,600 868,640 640,655 622,620 590,420"
    guard = "392,262 600,262 592,410 560,428 440,420 402,380"
    opening = "418,284 572,284 566,392 545,404 452,398 426,366"
    sheet.shape("648,640 872,628 880,662 650,676", finish.frame, 6)
    sheet.shape(grip, finish.frame, 10)
    sheet.shape(guard, finish.frame, 8, holes=[opening], soft=2)
    _trigger(sheet, 508, 272, finish.metal)
    frame = "120,196 800,196 878,238 872,254 810,262 800,276 140,276 120,250"
    sheet.shape(frame, finish.frame, 9)
    sheet.shape("800,118 838,92 858,104 848,130 824,190 800,190", finish.metal, 6)
    sheet.box(56, 138, 80, 192, finish.metal, 20)
    slide = "66,118 90,100 800,100 814,120 812,212 66,212"
    sheet.shape(slide, finish.metal, 26)
    sheet.shape("92,100 126,100 120,82 104,82", finish.metal, 4, soft=0)
    sheet.shape("730,100 796,100 788,78 742,78", finish.metal, 4, soft=0)
    sheet.serrations(664, 796, 112, 204, 13, 6)
    sheet.shape("378,108 546,108 546,156 378,156", HOLLOW, 3, soft=0)
    sheet.box(384, 112, 540, 150, BRIGHT_STEEL if finish.metal is not BRIGHT_STEEL else BLUED_STEEL, 16)
    panel = "612,296 782,286 838,600 660,618 632,480"
    sheet.shape(panel, finish.grip, 22, angle=-80)
    for row in range(9):
        for column in range(5):
            x, y = 646 + 30 * column + 5.5 * row, 330 + 28 * row - 2 * column
            sheet.shape([(x - 9, y), (x, y - 9), (x + 9, y), (x, y + 9)], finish.grip, 5, soft=0)
    sheet.screw(690, 306, finish.metal)
    sheet.screw(744, 596, finish.metal)
    sheet.shape("720,226 800,222 804,238 726,246", finish.metal, 5)
    sheet.shape("470,226 560,224 574,240 480,246", finish.metal, 5)
    sheet.disc(596, 300, 11, finish.metal, 4)
    return sheet.canvas


def compact_pistol(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A modern pistol with a square slide and a polymer frame."""
    sheet = Sheet(1000, 700, rng)
    grip = "556,256 808,244 836,300 820,360 880,600 872,640 652,650 600,430"
    guard = "360,264 600,264 606,400 590,424 400,420 372,396"
    opening = "388,284 572,284 578,380 562,398 420,394 398,376"
    sheet.shape("640,640 884,630 890,668 644,676", finish.frame, 6)
    sheet.shape(grip, finish.frame, 22)
    sheet.shape(guard, finish.frame, 8, holes=[opening], soft=1)
    _trigger(sheet, 500, 276, finish.frame)
    sheet.shape("96,196 812,196 872,236 866,252 812,268 560,290 100,278", finish.frame, 10)
    for x in (140, 190, 240):
        sheet.box(x, 258, x + 22, 280, HOLLOW, 2)
    slide = "64,100 84,86 816,86 826,96 826,214 64,214"
    sheet.shape(slide, finish.metal, 14)
    sheet.box(76, 96, 816, 100, finish.metal, 2)
    sheet.shape("96,86 122,86 120,70 102,70", finish.metal, 4, soft=0)
    sheet.shape("752,86 806,86 800,66 762,66", finish.metal, 4, soft=0)
    sheet.serrations(676, 812, 108, 206, 17, -6)
    sheet.serrations(110, 200, 108, 206, 17, -6)
    sheet.box(400, 92, 560, 146, HOLLOW, 3)
    sheet.box(405, 95, 556, 140, BRIGHT_STEEL if finish.metal is not BRIGHT_STEEL else BLACK_STEEL, 8)
    for row in range(15):
        for column in range(8):
            sheet.disc(632 + 24 * column + 4.2 * row, 336 + 18 * row - column, 5, finish.grip, 4)
    sheet.shape("440,230 560,228 570,240 452,246", finish.metal, 4)
    sheet.disc(590, 320, 13, finish.frame, 5)
    return sheet.canvas


def revolver(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A six-shot revolver with a rib along its barrel."""
    sheet = Sheet(1000, 700, rng)
    grip = "690,262 770,240 826,300 848,380 890,520 900,610 868,650 770,640 752,600 770,520 738,420 690,350"
    guard = "510,300 706,300 700,420 664,446 560,436 520,390"
    opening = "536,318 676,318 674,400 650,420 572,414 544,380"
    sheet.shape(guard, finish.frame, 8, holes=[opening], soft=2)
    _trigger(sheet, 630, 300, finish.metal, 1.1)
    sheet.shape("772,170 800,110 842,92 862,108 836,130 820,190 790,230", finish.metal, 6)
    sheet.shape("90,228 452,228 452,266 112,266 90,250", finish.frame, 14)
    sheet.box(66, 146, 480, 222, finish.metal, 40)
    sheet.box(66, 132, 480, 150, finish.metal, 4)
    sheet.shape("84,134 160,134 132,98 108,96", finish.metal, 4)
    frame = "452,132 760,132 800,170 806,250 760,300 700,330 520,330 452,300"
    sheet.shape(frame, finish.frame, 14)
    sheet.shape(grip, finish.grip, 30, angle=-70)
    sheet.screw(790, 470, finish.metal)
    sheet.shape("494,158 664,158 664,318 494,318", HOLLOW, 3)
    sheet.shape("500,152 660,152 668,168 668,310 658,322 500,322", finish.metal, 84)
    for y in (176, 236, 296):
        flute = [(500, y - 14), (590, y - 14), (616, y), (590, y + 14), (500, y + 14)]
        sheet.shape(flute, BLACK_STEEL if finish.metal is not BRIGHT_STEEL else finish.metal, 5)
    sheet.box(676, 140, 700, 318, finish.frame, 5)
    sheet.screw(740, 280, finish.metal)
    sheet.screw(716, 180, finish.metal)
    sheet.shape("706,214 750,210 756,230 712,236", finish.metal, 5)
    sheet.shape("700,132 764,132 760,112 716,116", finish.metal, 4, soft=0)
    return sheet.canvas


def assault_rifle(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A rifle with a curved magazine and a wooden or olive stock."""
    sheet = Sheet(1400, 520, rng)
    sheet.box(40, 164, 420, 182, finish.metal, 20)
    sheet.box(24, 158, 80, 188, finish.metal, 20)
    sheet.shape("84,170 128,170 118,108 96,108", finish.metal, 6)
    sheet.box(250, 126, 560, 150, finish.metal, 20)
    sheet.shape("232,168 270,120 290,120 282,184 236,186", finish.metal, 7)
    sheet.box(110, 190, 420, 197, finish.metal, 5)
    sheet.shape("330,118 560,112 566,152 334,152", finish.grip, 18)
    sheet.shape("322,156 590,152 594,212 560,222 340,210", finish.grip, 24)
    for x in (380, 450, 520):
        sheet.shape([(x, 128), (x + 36, 127), (x + 36, 135), (x, 136)], HOLLOW, 2)
    magazine = "622,226 726,222 720,300 694,380 646,456 604,474 552,430 560,414 604,360 622,290"
    sheet.shape(magazine, finish.frame, 14)
    for k in range(4):
        rib = [(636 + 20 * k, 240), (644 + 20 * k, 240), (632 + 18 * k, 330), (592 + 17 * k, 420)]
        rib += [(584 + 17 * k, 418), (624 + 18 * k, 328)]
        sheet.shape(rib, finish.metal, 3)
    stock = "958,168 1010,164 1360,214 1372,226 1374,338 1360,346 1080,252 960,232"
    sheet.shape(stock, finish.grip, 34, angle=-8)
    sheet.shape("1358,214 1376,218 1380,342 1362,346", finish.metal, 5)
    grip = "862,236 930,232 944,270 990,372 978,392 926,396 906,370 880,300"
    sheet.shape(grip, finish.grip, 20, angle=-66)
    guard = "738,228 884,228 876,300 760,302 744,286"
    sheet.shape(guard, finish.frame, 5, holes=["752,238 866,238 862,288 766,290 758,280"])
    _trigger(sheet, 822, 232, finish.metal, 0.6)
    sheet.shape("586,158 960,160 968,236 900,242 596,230", finish.frame, 10)
    sheet.shape("588,162 600,122 640,112 930,118 956,134 960,170 590,168", finish.metal, 24)
    for x in (700, 760, 820):
        sheet.shape([(x, 116), (x + 12, 116), (x + 14, 160), (x + 2, 160)], finish.metal, 4)
    sheet.shape("560,118 650,112 650,96 574,98", finish.metal, 5)
    sheet.shape("716,172 930,180 932,190 716,186", finish.metal, 4)
    sheet.shape("640,150 720,150 720,160 640,162", HOLLOW, 2)
    for x, y in ((612, 214), (770, 214), (850, 214), (940, 216)):
        sheet.disc(x, y, 6, finish.metal, 3)
    return sheet.canvas


def carbine(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A rifle with a straight magazine, a railed fore-end, a carrying sight and a sliding stock."""
    sheet = Sheet(1400, 520, rng)
    sheet.box(60, 166, 340, 182, finish.metal, 20)
    sheet.box(40, 160, 110, 188, finish.metal, 20)
    for x in (58, 74, 90):
        sheet.box(x, 164, x + 6, 176, HOLLOW, 2)
    sheet.shape("206,186 268,186 256,160 244,86 230,86 222,160", finish.metal, 6)
    sheet.shape("282,138 616,132 620,212 290,210", finish.grip, 30)
    for x in range(316, 600, 30):
        sheet.shape([(x, 150), (x + 14, 150), (x + 14, 196), (x, 196)], finish.grip, 4)
    for x in range(300, 612, 18):
        sheet.box(x, 124, x + 10, 136, finish.metal, 3)
    magazine = "664,236 768,236 764,330 746,426 738,436 630,424 636,404 658,320"
    sheet.shape(magazine, finish.frame, 10)
    for k in range(3):
        rib = [(684 + 24 * k, 260), (692 + 24 * k, 260), (686 + 24 * k, 330), (668 + 24 * k, 416)]
        sheet.shape([*rib, (660 + 24 * k, 414), (678 + 24 * k, 330)], finish.metal, 3)
    sheet.box(1000, 168, 1240, 204, finish.metal, 30)
    stock = "1096,150 1350,150 1362,164 1372,318 1340,324 1262,250 1110,232 1096,210"
    sheet.shape(stock, finish.grip, 14)
    sheet.shape("1130,196 1290,196 1296,210 1140,212", HOLLOW, 3)
    grip = "896,236 968,232 984,280 1024,370 1012,388 952,392 934,340"
    sheet.shape(grip, finish.grip, 16)
    guard = "776,232 924,232 926,296 800,298 780,280"
    sheet.shape(guard, finish.frame, 5, holes=["790,242 906,242 908,284 806,286 794,274"])
    _trigger(sheet, 866, 236, finish.metal, 0.6)
    sheet.shape("640,190 1000,186 1020,214 990,240 780,244 650,252", finish.frame, 9)
    sheet.shape("618,136 1010,132 1020,160 1016,196 620,200", finish.metal, 12)
    sheet.box(776, 152, 888, 180, HOLLOW, 3)
    sheet.box(780, 155, 884, 176, BRIGHT_STEEL, 10)
    for x in range(630, 990, 18):
        sheet.box(x, 122, x + 10, 134, finish.metal, 3)
    handle = "690,122 716,72 960,66 984,82 984,122 944,122 930,94 740,98 730,122"
    sheet.shape(handle, finish.metal, 9)
    sheet.box(930, 48, 976, 74, finish.metal, 5)
    for x, y in ((680, 216), (950, 208), (820, 226)):
        sheet.disc(x, y, 7, finish.metal, 3)
    return sheet.canvas


def shotgun(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A pump-action shotgun."""
    sheet = Sheet(1400, 520, rng)
    sheet.box(30, 150, 790, 180, finish.metal, 30)
    sheet.box(30, 143, 790, 151, finish.metal, 3)
    sheet.disc(44, 140, 6, BRASS, 4)
    sheet.box(120, 184, 780, 212, finish.metal, 30)
    sheet.box(116, 182, 136, 214, finish.metal, 10)
    sheet.shape("330,174 610,172 620,190 616,226 330,226 318,200", finish.grip, 28)
    for x in range(344, 604, 16):
        sheet.shape([(x, 184), (x + 6, 184), (x + 6, 220), (x, 220)], HOLLOW, 2)
    stock = "946,166 1020,196 1100,204 1362,214 1374,226 1378,352 1362,360 1130,278 1050,262 1010,268 960,236"
    sheet.shape(stock, finish.grip, 38, angle=-12)
    sheet.shape("1360,214 1382,216 1388,354 1364,360", RUBBER, 6)
    guard = "818,232 960,232 954,290 930,302 850,300 826,280"
    opening = "836,244 938,244 934,280 918,288 860,286 842,272"
    sheet.shape(guard, finish.frame, 5, holes=[opening], soft=2)
    _trigger(sheet, 896, 236, finish.metal, 0.55)
    receiver = "770,144 930,142 970,166 976,220 940,240 790,238 770,216"
    sheet.shape(receiver, finish.metal, 16)
    sheet.box(800, 160, 900, 192, HOLLOW, 3)
    sheet.box(806, 164, 894, 188, BRIGHT_STEEL, 18)
    for x, y in ((810, 218), (930, 214)):
        sheet.disc(x, y, 6, finish.metal, 3)
    return sheet.canvas


def hunting_rifle(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A bolt-action rifle with a telescopic sight."""
    sheet = Sheet(1400, 520, rng)
    sheet.shape("24,190 24,174 600,164 600,200", finish.metal, 30, soft=0)
    sheet.shape("60,174 92,174 86,156 66,156", finish.metal, 4, soft=0)
    wood = "340,190 700,188 960,192 1000,210 1080,226 1120,214 1360,216 1376,226 1380,346 "
    wood += "1366,354 1140,292 1090,304 1050,330 1010,326 960,262 720,250 420,226 340,216"
    sheet.shape(wood, finish.grip, 34, angle=-5)
    sheet.shape("1362,216 1384,220 1390,350 1368,356", RUBBER, 6)
    guard = "840,252 986,256 980,312 952,322 880,318 850,296"
    opening = "858,264 966,266 960,300 940,308 890,304 866,286"
    sheet.shape(guard, finish.frame, 4, holes=[opening], soft=2)
    _trigger(sheet, 922, 256, finish.metal, 0.55)
    sheet.shape("596,166 990,166 1016,180 1010,204 600,204", finish.metal, 22)
    sheet.box(700, 176, 800, 194, HOLLOW, 3)
    sheet.shape("936,186 958,186 990,240 974,250", finish.metal, 8)
    sheet.disc(988, 254, 15, finish.metal, 14)
    sheet.box(660, 140, 700, 172, finish.metal, 6)
    sheet.box(880, 140, 920, 172, finish.metal, 6)
    sheet.box(600, 106, 1000, 140, finish.metal, 40)
    sheet.shape("500,92 590,94 630,106 630,140 590,152 500,154", finish.metal, 40, soft=0)
    sheet.shape("960,106 1000,98 1090,96 1090,150 1000,148 960,140", finish.metal, 40, soft=0)
    sheet.box(496, 94, 504, 152, GLASS, 3)
    sheet.box(770, 82, 810, 110, finish.metal, 14)
    sheet.disc(790, 124, 18, finish.metal, 8)
    for x in (660, 880):
        sheet.box(x - 4, 100, x + 44, 146, finish.metal, 12)
    return sheet.canvas


def submachine_gun(rng: np.random.Generator, finish: Finish) -> Canvas:
    """A short automatic weapon with its magazine before the trigger and a wire stock."""
    sheet = Sheet(1400, 520, rng)
    sheet.box(150, 158, 420, 180, finish.metal, 20)
    sheet.box(120, 152, 176, 186, finish.metal, 20)
    window = "254,104 274,104 276,136 252,136"
    sheet.shape("238,160 290,160 284,92 244,92", finish.metal, 6, holes=[window])
    sheet.shape("330,142 600,138 606,212 590,226 360,220 336,204", finish.grip, 26)
    for x in range(372, 580, 34):
        sheet.shape([(x, 166), (x + 18, 166), (x + 18, 176), (x, 176)], HOLLOW, 2)
    magazine = "622,226 706,226 704,300 678,410 660,462 570,444 580,420 612,320"
    sheet.shape(magazine, finish.frame, 10)
    sheet.shape("630,250 640,250 632,330 600,436 590,432 622,328", finish.metal, 3)
    sheet.shape("664,250 674,250 666,330 636,444 626,440 656,328", finish.metal, 3)
    sheet.box(1000, 150, 1270, 164, finish.metal, 10)
    sheet.box(1000, 196, 1270, 208, finish.metal, 10)
    sheet.shape("1256,140 1290,140 1300,320 1284,330 1262,320 1258,200", RUBBER, 8)
    grip = "826,232 912,228 924,280 960,374 948,392 874,396 856,350"
    sheet.shape(grip, finish.grip, 20)
    guard = "712,232 852,232 856,302 736,304 716,284"
    sheet.shape(guard, finish.frame, 6, holes=["728,244 832,244 836,288 744,290 732,276"])
    _trigger(sheet, 796, 238, finish.metal, 0.6)
    sheet.shape("600,188 990,186 1000,214 960,236 610,238", finish.frame, 10)
    receiver = "420,118 1000,122 1014,140 1012,194 596,196 580,150 420,146"
    sheet.shape(receiver, finish.metal, 30)
    sheet.box(660, 140, 780, 170, HOLLOW, 3)
    sheet.box(666, 144, 774, 166, BRIGHT_STEEL, 12)
    sheet.shape("886,124 960,124 950,84 896,84", finish.metal, 8)
    sheet.shape("440,122 470,122 462,96 448,96", finish.metal, 5)
    for x, y in ((640, 216), (930, 212)):
        sheet.disc(x, y, 8, finish.metal, 4)
    return sheet.canvas


KINDS: dict[str, Callable[[np.random.Generator, Finish], Canvas]] = {
    "pistol": pistol,
    "compact-pistol": compact_pistol,
    "revolver": revolver,
    "assault-rifle": assault_rifle,
    "carbine": carbine,
    "shotgun": shotgun,
    "hunting-rifle": hunting_rifle,
    "submachine-gun": submachine_gun,
}
