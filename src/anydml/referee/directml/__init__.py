"""Cases of DirectML's operators, as model files of DxDispatch: `descs` draws them, `contents` fills them."""
