import struct, zlib


class Chart:
    """Bars as a PNG, without any library."""

    WIDTH, HEIGHT, COLOURS = 640, 260, [(199, 210, 254), (129, 140, 248), (67, 56, 202)]

    def __init__(self, rows):
        self.groups = [[int(row[quarter]) for quarter in ("q1", "q2", "q3")] for row in rows]

    def pixels(self):
        image = [[(255, 255, 255)] * self.WIDTH for _ in range(self.HEIGHT)]
        most = max(max(group) for group in self.groups)
        each = self.WIDTH // len(self.groups)
        for index, group in enumerate(self.groups):
            for bar, value in enumerate(group):
                left = index * each + 24 + bar * 36
                for y in range(self.HEIGHT - 20 - value * (self.HEIGHT - 40) // most, self.HEIGHT - 20):
                    image[y][left:left + 32] = [self.COLOURS[bar]] * 32
        for x in range(self.WIDTH):
            image[self.HEIGHT - 20][x] = (148, 163, 184)
        return image

    def _repr_png_(self):
        raw = b"".join(b"\0" + bytes(channel for pixel in line for channel in pixel) for line in self.pixels())

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        header = struct.pack(">IIBBBBB", self.WIDTH, self.HEIGHT, 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")

    def __repr__(self):
        return "sales per region and quarter"


Chart(rows)
