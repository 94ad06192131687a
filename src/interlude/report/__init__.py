"""What a fit found out, as one page to read: RUN/report.html."""

from interlude.report.page import NAME as REPORT
from interlude.report.page import write_report

__all__ = ["REPORT", "write_report"]
