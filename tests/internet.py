"""A fixture that answers downloads without a network."""

import io

import pytest


class Internet:
    """Files on servers, and no connection to any other address.

    Attributes
    ----------
    files : dict of str to bytes
        Contents by their addresses.
    requested : list of str
        Addresses of all requests.
    """

    def __init__(self):
        self.files = {}
        self.requested = []

    def answer(self, request):
        """Return the response to a request."""
        # Most tests need neither of them.
        import requests
        import urllib3

        self.requested.append(request.url)
        if request.url not in self.files:
            raise requests.ConnectionError
        response = requests.Response()
        response.status_code = 200
        response.url = request.url
        response.raw = urllib3.HTTPResponse(
            io.BytesIO(self.files[request.url]), status=200, preload_content=False
        )
        return response


@pytest.fixture
def internet(monkeypatch):
    """Return the internet without a file; files may be added."""
    internet = Internet()

    def send(adapter, request, **options):
        return internet.answer(request)

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", send)
    return internet
