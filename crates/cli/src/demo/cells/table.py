class Table:
    def __init__(self, rows):
        self.rows = rows

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in self.rows[0])
        body = "".join("<tr>" + "".join(f"<td>{value}</td>" for value in row.values()) + "</tr>" for row in self.rows)
        style = "font: 14px sans-serif; border-spacing: 1.2em 0.3em; text-align: left"
        return f"<table style='{style}'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


Table(rows)
