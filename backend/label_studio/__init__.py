"""CaMVo as a client of Label Studio: what people get wrong by hand, projects too large for one request, catching up."""
